#pragma once
// The table of families that GGUF and tern share. Stays in formats/.

#include <span>
#include <string_view>

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

}  // namespace tern
