#pragma once
// Llama 3's rotary scaling as the table of divisors that a GGUF file holds, and back.

#include <optional>
#include <vector>

#include "formats/hf/config.h"

namespace tern {

/// The scaling of Llama 3 that gives these divisors to within 2e-6; absent: none does. divisors: one for each
/// pair of a head's elements. theta: the base of the frequencies.
std::optional<HfRope> llama3_rope_of(const std::vector<float>& divisors, double theta);
/// Divisors of the rotary frequencies, which a GGUF file holds as the tensor rope_freqs.weight; empty: the model has
/// none.
std::vector<float> gguf_rope_divisors(const HfConfig&);

}  // namespace tern
