#pragma once
// Finding a literal in a text, in time proportional to the bytes of both, whatever these are: a tokenizer's author may
// choose the literal, and the tokenizer's steps make the text.

#include <cstddef>
#include <string_view>
#include <vector>

#include "formats/text_span.h"

namespace tern {

/// For each prefix of `literal`, the length of its longest proper prefix that is also its suffix.
/// Source  Knuth, Morris, Pratt 1977.
std::vector<size_t> borders_of(std::string_view literal);
/// Appends where `literal`, which is not empty, stands in `text`: from the left, no two that overlap.
void find_literal(std::string_view text, std::string_view literal, std::vector<TextSpan>& matches);

}  // namespace tern
