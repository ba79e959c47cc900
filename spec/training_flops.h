#pragma once
// FLOPs of training as the literature counts them, for shares of a machine's peak.

#include <cstdint>
#include <functional>

#include "spec/model_spec.h"

namespace tern {

/// FLOPs per token of a training step, for the "share of peak" figure: 6 (frozen: 4) per parameter that multiplies (all
/// but the embedding tables; a tied table counts as the head's projection, experts' parameters by the share top_k/experts),
/// plus 6 per element of queries and of values per attended pair (causal, windowed) and layer. Recomputed work does not count.
/// Source: Chowdhery et al. 2022, arXiv:2204.02311, appendix B, with the pairs that are attended instead of all T².
double training_flops_per_token(const ModelSpec&, int64_t seq);
/// The same, where `tokens` tokens together attend to `pairs` pairs, a function of the attention.
double training_flops_per_token(const ModelSpec&, const std::function<double(const AttentionSpec&)>& pairs,
                                double tokens);

}  // namespace tern
