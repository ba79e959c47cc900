#pragma once
// A training state as the tensors of a checkpoint.

#include <string>
#include <vector>

#include "comm/comm.h"
#include "model/tensor_parts.h"
#include "train/train_state.h"

namespace tern {

/// A tensor of a checkpoint, "model.NAME" (masters) or "SLOT.NAME" (spec/update_rules.def), and this rank's part of it.
struct StateTensor {
  std::string name;
  DType dtype;
  Shape shape;  // of the whole
  Tensor own;   // the whole, or this rank's part as one row of numbers; empty: it has none
  // Who keeps which of the elements; empty: every rank has it whole. (In stages others than the owner may have it too.)
  // In a tensor group elements count within this rank's part, and the ranks are those at its place in their groups.
  std::vector<RankInterval> owners{};
  int64_t begin = 0;             // of `own` in the whole, or in the part
  std::vector<Holding> parts{};  // of a tensor group: what each of its ranks has of the whole (model/tensor_parts.h)
  int64_t part_elements = 0;     // of this rank's part, if there are any
};
/// What a checkpoint holds: all masters, then what the rule keeps, then what no update changes. `dtype` is the weights'.
std::vector<StateTensor> state_tensors(const UpdateConfig&, DType dtype, const OptimizerState&);
/// The same and what is kept beside, or of a run with --outer what all its ranks have (train/outer_run.h).
std::vector<StateTensor> state_tensors(const TrainSettings&, const TrainState&);

/// Brings every rank's part to rank 0's `whole` (other ranks pass an empty Tensor). All ranks call it.
void gather_to_first(Comm&, const StateTensor&, const Tensor& whole);

}  // namespace tern
