#pragma once
// The memory that a run will take, predicted before anything is allocated, by the closed forms of spec/ and the simulator. What the engine
// itself allocates is predicted to the byte, except experts' rows beyond the room for them.

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "program/simulate.h"
#include "spec/model_spec.h"
#include "train/settings.h"

namespace tern {

/// Predicted bytes by class, each the sum over all ranks (threads or processes). The Arena will count exactly the members from `weights` to
/// `beginning` below, except `checkpoint`, which is on the disk. Scratch, data, process and text are outside the Arena. The Arena's classes do not
/// all exist at the same time: tensors() is the highest sum that they reach together.
struct PredictedMemory {
  int64_t weights = 0, gradients = 0, optimizer = 0;
  int64_t activations = 0, workspace = 0;  // at the moment of their highest sum, in training or in an evaluation
  int64_t staging =
      0;  // the copy that a checkpoint is written from; none if all ranks write it (keeps_apart) or states lie on the disk
  int64_t checkpoint = 0;  // of a checkpoint's tensors on the disk; no memory
  int64_t messages = 0;    // received and not yet summed or read; in pipelines also what was sent in this step
  // The whole model on rank 0, while rank 0 evaluates or writes it (is_whole_for_a_while, train/mesh_fit.h).
  int64_t whole = 0;
  // The peak before there are gradients. In bf16 it has the f32 weights from which the masters are made; under ZeRO 3 it has the whole unit
  // of which each rank takes its part.
  int64_t beginning = 0;
  bool staging_during_steps = true;  // false: the only checkpoint is written when the last step's activations are gone
  int64_t scratch = 0;               // what compute threads keep: packed factors, tiles of scores
  int64_t data = 0;                  // one step's tokens and targets, tables of rotations
  int64_t process = 0;               // the program itself: code, libraries, thread stacks
  int64_t text = 0;                  // memory to encode the longest document, before tensors are allocated
  int64_t tensors() const;           // what the Arena will have counted at its peak
  int64_t total() const { return std::max(tensors() + scratch + data, text) + process; }
  /// The classes that tables show, with their names, in the order above: messages and the whole model only if there are any;
  /// never `checkpoint`, `beginning` and `text`.
  std::vector<std::pair<std::string_view, int64_t>> classes() const;
};

/// The bytes that an evaluation takes for one micro-batch, with the exact kernels.
RankBytes evaluation_bytes(const ModelSpec&, const TrainSettings&);
/// The predicted peak of a run with these settings. `process_bytes`: of the program itself, see program_bytes(). Errors: those of shares_of
/// (train/rank_place.h); does_not_fit, if a micro-batch takes more bytes than an int64_t counts.
PredictedMemory predict_memory(const ModelSpec&, const TrainSettings&, int64_t process_bytes);

/// The breakdown as a small table, one class per line.
std::string describe(const PredictedMemory&);

}  // namespace tern
