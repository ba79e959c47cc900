#pragma once
// FLOPs of training as the literature counts them, for shares of a machine's peak.

#include <cstdint>
#include <functional>

#include "spec/model_spec.h"

namespace tern {

/// FLOPs per token of a training step, for the "share of peak" figure. 6 (frozen: 4) per parameter outside the embedding;
/// a tied table counts as the head's projection, experts' parameters by the share top_k/experts. Plus, per layer and
/// attended pair (causal, windowed), 6 per element of a query and of a value over all heads. Recomputed work does not
/// count. Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B, with the attended pairs in place of all T².
double training_flops_per_token(const ModelSpec&, int64_t seq);
/// The same for `tokens` tokens that together attend to pairs(attention) pairs.
double training_flops_per_token(const ModelSpec&, const std::function<double(const AttentionSpec&)>& pairs,
                                double tokens);

/// FLOPs of `tokens` tokens, of which `targets` have a loss: in the head only those count.
double training_flops(const ModelSpec&, int64_t seq, double tokens, double targets);

}  // namespace tern
