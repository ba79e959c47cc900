#pragma once
// WikiText in the forms for which perplexities are quoted: pages, the harness's detokeniser and word count, GPTQ's text. Pure functions.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

/// The pages of a raw file. A page starts at a title line " = Title = ".
std::vector<std::string> wikitext_pages(std::string_view raw);
/// The harness's detokeniser for WikiText.
std::string wikitext_detokenize(std::string_view page);
/// The harness's word count: the number of pieces that splitting at runs of white space gives. An empty first or last piece counts.
int64_t harness_words(std::string_view page);
/// The text on which GPTQ is evaluated: lines with their newline, blank lines as "", joined by "\n\n".
std::string gptq_text(std::string_view raw);

}  // namespace tern
