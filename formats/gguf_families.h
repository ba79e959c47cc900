#pragma once
// The table of families that GGUF and tern share, and the rotary table of some. Stays in formats/.

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/hf_config.h"

namespace tern {

struct GgufName {
  std::string_view hf, gguf;  // without ".weight" or ".bias"; '#': the layer
};
struct GgufFamily {
  std::string_view model_type, architecture;  // of several families of one architecture the first is read
  std::span<const GgufName> names;
  bool interleaved;  // GgufPlace::Heads
};
/// Null: not in the table.
const GgufFamily* gguf_family(std::string_view model_type);
const GgufFamily* gguf_family_of_architecture(std::string_view architecture);

/// Llama 3's scaling that makes these divisors, one for each pair of a head's elements, to 2e-6; absent: none does.
std::optional<HfRope> llama3_rope_of(const std::vector<float>& divisors, double theta);

}  // namespace tern
