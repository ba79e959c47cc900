#pragma once
// Which of several samples is worth most, by how each ended and by its probability.

#include <cstddef>
#include <span>

#include "infer/request.h"

namespace tern {

/// Whether a sample ended by itself: at a token that ends texts, or at a stop text. The first of several to do so is what
/// first-finish search takes (shorter lines of reasoning are more often right). Source  Agarwal et al. 2025, arXiv:2505.18149 (recalled).
bool ended_by_itself(const Sample&);
/// Of its tokens under the model, the one that ended it included; 0 of none.
double mean_log_probability(const Sample&);
/// Index of the sample with the highest mean_log_probability, the first of equals; a cancelled or
/// failed one only where there are no others. There must be a sample.
size_t likeliest_sample(std::span<const Sample>);

}  // namespace tern
