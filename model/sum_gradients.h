#pragma once
// Sums the gradients of a parameter that is used in several places: in the embedding and the head of a tied model, or
// on several ranks of a tensor group. program/lower.h says when.

#include "model/tensor_ranks.h"
#include "model/weights.h"
#include "spec/model_spec.h"

namespace tern {

/// For a tied model: embed.tokens += head.projection, then head.projection = 0. The table's whole gradient so far is
/// then in embed.tokens. Does nothing for other models. When a step calls it: program/lower.h, Sums.
void join_tied_gradients(const ModelSpec&, const ModelWeights& gradients);
/// Sums over a tensor group the gradients of parameters of which several ranks hold the same copy: a rank's own gradient covers
/// only its rows or heads. For tests that make one pass without a Program; in a step the REDUCEs over `tensor` and `keys` do this.
void sum_shared_gradients(const ModelSpec& part, ModelWeights& gradients, const TensorRanks&);

}  // namespace tern
