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
  bool is_chat = false;  // `messages`, `conversations`: formats/chat/training.h reads the line
  bool is_instruction =
      false;  // `instruction`: text and completion as Alpaca writes them; formats/chat/training.h reads the line too
  bool is_pair =
      false;  // `chosen` and `rejected`, two answers to one prompt: text and completion are those of the chosen one;
              // with is_chat text is a line with `messages`
  std::string rejected;  // the other answer; with is_chat the other line
};

/// {"text": …} or {"prompt": …, "completion": …}, all strings; {"messages": …} or {"conversations": …}, which are only
/// recognized; {"instruction": …, "input": …, "output": …}, whose system prompt, if there is one, makes it a conversation; {"prompt": …, "chosen": …, "rejected": …} of strings, or of lists of
/// messages, where `prompt` may be absent (the lists then begin alike), or the text of their first message.
/// Errors  bad_file "PLACE: …": not JSON, an unknown key (with the nearest known one), a key missing, not a string.
JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place);

}  // namespace tern
