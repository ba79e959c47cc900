#pragma once
// Reads the lines of `tern generate --prompts`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct PromptLine {
  int64_t number = 0;  // of the line, from 1
  std::string prompt;
  std::string id;                     // as JSON: a text or a whole number; empty: none
  std::optional<int64_t> max_tokens;  // of this prompt
};
struct PromptsFile {
  std::vector<PromptLine> lines;
  std::vector<std::string> passed_over;  // unknown keys, each once, ascending
};
/// Reads one JSON value a line: a text, or {"prompt": "…", "id": …, "max_tokens": N}, where the id is a text or a whole number. Empty lines are
/// skipped. Errors: bad_file, naming `place`, line and key: a malformed line; no prompts.
PromptsFile parse_prompts(std::string_view text, const std::string& place);

}  // namespace tern
