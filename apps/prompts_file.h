#pragma once
// The lines of `tern generate --prompts`.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

struct PromptLine {
  int64_t number = 0;  // of the line, from 1
  std::string prompt;
  std::string id;                     // as JSON, a text or a whole number; empty: none
  std::optional<int64_t> max_tokens;  // of this line
};

struct PromptsFile {
  std::vector<PromptLine> lines;
  std::vector<std::string> passed_over;  // keys of objects that nothing reads, each once, ascending
};

/// One JSON value a line: a text, or {"prompt": "…", "id": …, "max_tokens": N}; an id is a text or a whole number. Empty lines are
/// passed over. Errors: bad_file naming `place`, line and key; a file without prompts.
PromptsFile parse_prompts(std::string_view text, const std::string& place);

}  // namespace tern
