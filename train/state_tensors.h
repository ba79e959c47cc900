#pragma once
// A training state as the tensors of a checkpoint.

#include <string>
#include <vector>

#include "comm/comm.h"
#include "model/tensor_parts.h"
#include "train/train_state.h"

namespace tern {

/// A tensor of a checkpoint, "model.NAME" (masters) or "SLOT.NAME" (spec/update_rules.def), and what this rank keeps of it.
struct StateTensor {
  std::string name;
  DType dtype;
  Shape shape;  // of the whole tensor
  Tensor own;   // the whole tensor, or the elements that this rank keeps as one row; empty: it keeps none
  // Which rank keeps which elements; empty: every rank keeps the whole tensor. (In stages other ranks than the owner may have them too.)
  // In a tensor group, elements are numbered within this rank's part of the matrix, and the ranks are those with the same part.
  std::vector<RankInterval> owners{};
  int64_t begin = 0;  // the number of the first element of `own`
  // In a tensor group: what each of its ranks has of the whole tensor (model/tensor_parts.h).
  std::vector<Holding> parts{};
  int64_t part_elements = 0;  // in a tensor group: the elements of this rank's part
};
/// What a checkpoint holds, in this order: all masters, what the rule keeps, what no update changes. `dtype`: of the weights.
std::vector<StateTensor> state_tensors(const UpdateConfig&, DType dtype, const OptimizerState&);
/// The same, and after it TrainState::beside; of a run with --outer, outer_tensors (train/outer_run.h).
std::vector<StateTensor> state_tensors(const TrainSettings&, const TrainState&);

/// Gathers the elements that the ranks keep of a tensor in `whole` on rank 0; the other ranks pass an empty Tensor. All ranks call it.
/// Errors  the transport's.
void gather_to_first(Comm&, const StateTensor&, const Tensor& whole);

}  // namespace tern
