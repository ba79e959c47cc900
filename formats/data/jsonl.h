#pragma once
// One line of a JSONL file of training text.

#include <cstdint>
#include <string>
#include <string_view>

namespace tern {

/// What a line holds.
struct JsonlRecord {
  std::string text;        // `text`, or `prompt`
  std::string completion;  // if has_completion
  bool has_completion = false;
  bool is_chat = false;  // the line has `messages` or `conversations`, which formats/chat/training.h reads
  bool is_instruction =
      false;  // the line has `instruction`; text and completion are Alpaca's. formats/chat/training.h can read the line too
  bool is_pair =
      false;  // the line has `chosen` and `rejected`, two answers to one prompt; text and completion are of the
              // chosen one. If is_chat, text is a line with `messages`
  std::string rejected;  // the other answer; if is_chat, a line with `messages`
};

/// Reads a line in one of these forms:
///   {"text": …}, {"prompt": …, "completion": …}               strings
///   {"messages": …}, {"conversations": …}                     recognized, not read
///   {"instruction": …, "input": …, "output": …}               with a system prompt it counts as a conversation
///   {"prompt": …, "chosen": …, "rejected": …}                 three strings, or three lists of messages; beside two
///                                                             lists `prompt` may also be the text of the message with
///                                                             which both begin, or be absent
/// Errors  bad_file "PLACE: …": not JSON, an unknown key (with the nearest known one), a key missing, not a string.
JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place);

}  // namespace tern
