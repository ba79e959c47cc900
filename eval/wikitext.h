#pragma once
// WikiText as perplexities are quoted on it: pages, the harness's detokeniser and word count, GPTQ's text. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// WikiText pages of a raw file: parts that start at a title line " = Title = ".
std::vector<std::string> wikitext_pages(std::string_view raw);
/// The harness's detokeniser for WikiText.
std::string wikitext_detokenize(std::string_view page);
/// The harness's word count: the number of pieces that splitting at runs of white space gives, an empty first and last one
/// included.
int64_t harness_words(std::string_view page);
/// GPTQ style: lines with their newline, blank ones as "", joined by "\n\n".
std::string gptq_text(std::string_view raw);

}  // namespace tern
