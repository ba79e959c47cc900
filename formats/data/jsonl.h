#pragma once
// One line of a JSONL file of training text.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

struct JsonlRecord {
  std::string text;        // `text`, or `prompt`
  std::string completion;  // with has_completion
  bool has_completion = false;
  bool is_chat = false;  // `messages`: formats/chat/training.h reads the line
};

/// {"text": …} or {"prompt": …, "completion": …}, all strings; or {"messages": …}, which is only recognized.
/// Errors  bad_file "PLACE: …": not JSON, an unknown key (with the nearest known one), a key missing, not a string.
JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place);

}  // namespace tern
