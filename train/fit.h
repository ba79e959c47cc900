#pragma once
// The memory that a run will take, predicted before anything is allocated: from the closed forms and the simulator, exactly to
// the byte for what the engine itself allocates.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "program/simulate.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Predicted bytes by class. weights…staging are exact (what the Arena will count); scratch, data and process are
/// what lies beside it. The classes are not all there at one moment: tensors() is their highest
/// sum. All are sums over the ranks, which are threads of one process or processes.
struct PredictedMemory {
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

/// Bytes that evaluating a micro-batch takes, with the exact kernels.
RankBytes evaluation_bytes(const ModelSpec&, const TrainSettings&);
/// Predicted peak of a run with these settings. `process_bytes`: of the program itself, see program_bytes().
PredictedMemory predict_memory(const ModelSpec&, const TrainSettings&, int64_t process_bytes);

/// The breakdown as a small table, one class per line.
std::string describe(const PredictedMemory&);

}  // namespace tern
