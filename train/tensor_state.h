#pragma once
// The state of ranks that share out each matrix, as a checkpoint holds it: whole.

#include <vector>

#include "comm/comm.h"
#include "train/state_tensors.h"
#include "train/train_state.h"

namespace tern {

/// Of a rank in a tensor group: the tensors, now with the shapes of the whole ones and with what each rank holds
/// (StateTensor::parts). Else the tensors unchanged.
std::vector<StateTensor> in_parts(std::vector<StateTensor>, const ModelSpec& whole, const TensorPlace&);

/// gather_to_first of a tensor that has parts, each from those who keep it. All ranks call it.
void gather_parts_to_first(Comm& world, const StateTensor&, const Tensor& whole);

}  // namespace tern
