#pragma once
// The state of ranks that share out each matrix, for checkpoints, which hold whole matrices.

#include <vector>

#include "comm/comm.h"
#include "train/state_tensors.h"
#include "train/train_state.h"

namespace tern {

/// The tensors of a rank in a tensor group, with the shapes of the whole tensors, and with StateTensor::parts filled in. A rank that is in no
/// tensor group gets its tensors back unchanged.
std::vector<StateTensor> in_parts(std::vector<StateTensor>, const ModelSpec& whole, const TensorPlace&);

/// gather_to_first (train/state_tensors.h) for a tensor that has parts. All ranks call it. Errors  the transport's.
void gather_parts_to_first(Comm& world, const StateTensor&, const Tensor& whole);

}  // namespace tern
