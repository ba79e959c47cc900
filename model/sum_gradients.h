#pragma once
// At a step's end: the sum of the gradients of a parameter that stands in several places, in the embedding and the head of a
// tied model or on several ranks of a tensor group.

#include "model/tensor_ranks.h"
#include "model/weights.h"
#include "spec/model_spec.h"

namespace tern {

/// For a tied model: embed.tokens += head.projection, then head.projection = 0; called after the last BACKWARD_WEIGHT of a step,
/// it leaves the table's whole gradient in embed.tokens. Does nothing for other models.
void join_tied_gradients(const ModelSpec&, const ModelWeights& gradients);
/// After a step's last BACKWARD_WEIGHT: sums the gradients of what several ranks hold alike, because each rank's gradient has
/// seen only its own rows or heads.
void sum_shared_gradients(const ModelSpec& part, ModelWeights& gradients, const TensorRanks&);

}  // namespace tern
