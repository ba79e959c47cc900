#pragma once
// Grapheme clusters: what people take for one character. The reference: Hugging Face's tokenizers.

#include <cstddef>
#include <string_view>

namespace tern {

/// Where the grapheme cluster that begins at text[i] ends, by the rules of the reference (Unicode 16).
size_t grapheme_end(std::string_view text, size_t i);

}  // namespace tern
