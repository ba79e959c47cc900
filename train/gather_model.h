#pragma once
// The whole model on the first rank, brought together from what each rank keeps of it.

#include "base/dtype.h"
#include "comm/comm.h"
#include "model/weights.h"
#include "spec/model_spec.h"
#include "train/rank_place.h"
#include "update/pass.h"

namespace tern {

/// Gathers all ranks' trained weights, and the tensors that are not trained, in `whole`, which has memory on the first rank and is empty
/// on the others. All ranks call it, with the pass's weights as they are saved (WeightPoint::saved). `DType`: of the weights.
/// Errors  the transport's.
void gather_model(const ModelSpec&, const RankPlace&, DType, const UpdatePass&, Comm& world, ModelWeights& whole);

}  // namespace tern
