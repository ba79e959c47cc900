#pragma once
// Llama 3's rotary scaling as the table of divisors that a GGUF file holds, and back.

#include <optional>
#include <vector>

#include "formats/hf/config.h"

namespace tern {

/// Llama 3's scaling that gives these divisors to within 2e-6, one for each pair of a head's elements; absent: none does.
std::optional<HfRope> llama3_rope_of(const std::vector<float>& divisors, double theta);
/// Divisors of the rotary frequencies that the file holds as tensor rope_freqs.weight; empty: none.
std::vector<float> gguf_rope_divisors(const HfConfig&);

}  // namespace tern
