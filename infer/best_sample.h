#pragma once
// Which of several samples to prefer, by how each ended and by its probability.

#include <cstddef>
#include <span>

#include "infer/request.h"

namespace tern {

/// Whether a sample ended by itself: at a token that ends texts, or at a stop text. First-finish search takes the first of several samples
/// that does so, as shorter lines of reasoning are more often right. Source  Agarwal et al. 2025, arXiv:2505.18149 (recalled).
bool ended_by_itself(const Sample&);
/// The mean log probability of a sample's tokens under the model, in nats, the token that ended it included; 0 if it has no tokens.
double mean_log_probability(const Sample&);
/// The index of the sample with the highest mean_log_probability; of equals the first. A sample that was cancelled or failed is taken only if
/// all were. There must be at least one sample.
size_t likeliest_sample(std::span<const Sample>);

}  // namespace tern
