#pragma once
// Will it fit? This is asked before anything is allocated and answered from the closed forms and the simulator, exactly to the
// byte for what the engine itself allocates.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/io.h"
#include "program/placement.h"
#include "program/simulate.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Predicted bytes by class. weights…staging are exact (what the Arena will count); scratch, data and process are
/// what lies beside it. The classes are not all there at one moment: tensors() is their highest
/// sum. All are sums over the ranks, which are threads of one process or processes.
struct MemoryPlan {
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0, workspace = 0;  // at the moment of the highest sum, training or evaluation
  int64_t staging = 0;                     // the copy a checkpoint is written from
  int64_t messages = 0;                    // what other ranks sent, until it is summed
  int64_t whole = 0;  // ZeRO 3, matrices shared out: the model on rank 0, while that evaluates or writes it
  // The peak before there are gradients: in bf16 it has the f32 weights from which masters are made, under ZeRO 3 the whole
  // unit of which each rank takes its part.
  int64_t beginning = 0;
  bool staging_during_steps = true;  // false: the only checkpoint comes after the last step's activations are gone
  int64_t scratch = 0;               // what compute threads keep: factors packed, tiles of scores
  int64_t data = 0;                  // one step's tokens and targets, tables of rotations
  int64_t process = 0;               // the program itself: code, libraries, thread stacks
  int64_t text = 0;                  // memory to encode the longest document, before the tensors are allocated
  int64_t tensors() const;           // what the Arena will have counted at its peak
  int64_t total() const { return std::max(tensors() + scratch + data, text) + process; }
  /// In the order above, with their names; messages and the whole model only where there are any.
  std::vector<std::pair<std::string_view, int64_t>> classes() const;
};

/// A step of `sequences` sequences on one rank. The plan, or without one the settings, say the size of micro-batches and, of
/// each layer, recomputation and ZeRO; several ranks sum their gradients. Windows are taken to be full, so attended pairs
/// are an upper bound. With a plan of several stages it is the plan's own step, whatever `sequences` says.
Placement step_placement(const ModelSpec&, const TrainSettings&, int64_t sequences);
/// Bytes that evaluating a micro-batch takes, with the exact kernels.
RankBytes evaluation_bytes(const ModelSpec&, const TrainSettings&);
/// Predicted peak of a run with these settings. `process_bytes`: of the program itself, see program_bytes().
MemoryPlan predict_memory(const ModelSpec&, const TrainSettings&, int64_t process_bytes);

/// A change of settings and what it would take.
struct Alternative {
  std::string flags;  // "--micro-batch 8 --recompute attention"
  MemoryPlan plan;
};
/// Up to `count` settings that fit in `budget`, the least intrusive first: smaller micro-batches and recomputation
/// (same result), then bf16, then shorter sequences. Empty: nothing of the kind fits.
std::vector<Alternative> nearest_fits(const ModelSpec&, const TrainSettings&, int64_t process_bytes, int64_t budget,
                                      int count = 3);

/// What a disk must have free for this run: the checkpoints it keeps and the one being written, and the exported model,
/// less the checkpoints that are there already. Logs and packed text come on top and are small beside them.
struct DiskPlan {
  int64_t checkpoint = 0;       // bytes of one
  int64_t num_checkpoints = 0;  // at once
  int64_t model = 0;
  int64_t present = 0;  // bytes of the checkpoints that OUT has already; new ones will replace them
  int64_t states = 0;   // the optimizer's, where they lie in a file there
  int64_t wanted() const { return std::max<int64_t>(0, checkpoint * num_checkpoints - present) + model + states; }
};
DiskPlan predict_disk(const ModelSpec&, const TrainSettings&, Io&);
/// Errors: does_not_fit naming the directory, bytes wanted and there, and the remedy. An unknown disk fits.
void require_disk(const DiskPlan&, const TrainSettings&, Io&);

/// The breakdown as a small table, one class per line.
std::string describe(const MemoryPlan&);

/// Errors: does_not_fit with the breakdown and the nearest settings that fit. `source` says where the budget comes
/// from.
void require_fit(const ModelSpec&, const TrainSettings&, const MemoryPlan&, int64_t process_bytes, int64_t budget,
                 const std::string& source);

}  // namespace tern
