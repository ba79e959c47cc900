#pragma once
// At a step's end: the sum of the gradients of a parameter that stands in several places, in the embedding and the head of a
// tied model or on several ranks of a tensor group.

#include "model/tensor_ranks.h"
#include "model/weights.h"
#include "spec/model_spec.h"

namespace tern {

/// For a tied model: embed.tokens += head.projection, then head.projection = 0. The table's whole gradient so far is
/// then in embed.tokens. Does nothing for other models. When a step calls it: program/lower.h, Sums.
void join_tied_gradients(const ModelSpec&, const ModelWeights& gradients);
/// The sum of a tensor group for tests of one pass: a step has REDUCEs over `tensor` and `keys`. Sums gradients of parameters that
/// several ranks hold alike, because each rank's gradient has seen only the rank's rows or heads.
void sum_shared_gradients(const ModelSpec& part, ModelWeights& gradients, const TensorRanks&);

}  // namespace tern
