#pragma once
// Rows of instruction data as other tools write them, as one text pair or as the messages of a conversation.

#include <string>

#include "base/json.h"

namespace tern {

/// {"instruction": …, "input": …, "output": …}, as Stanford Alpaca's data has it; "system" may stand beside them.
bool is_alpaca_row(const Json& row);
/// {"conversations": [{"from": …, "value": …}]}, as ShareGPT's and Vicuna's data has it.
bool is_sharegpt_row(const Json& row);

/// What a model without a chat template reads and writes: Alpaca's own prompt, with or without an input.
/// Source: tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT.
struct InstructionPair {
  std::string prompt, completion;
};
/// Errors  bad_file "PLACE: …": an unknown key (with the nearest known one), no text where one is expected, an empty output; a
/// system prompt, which Alpaca's text has no place for.
InstructionPair alpaca_pair(const Json& row, const std::string& place);

/// The row as {"messages": […], "tools": […]}: of Alpaca the user says instruction and input, parted by a line end; of ShareGPT
/// "human" and "user" are the user, "gpt", "chatgpt", "bing", "bard", "model" and "assistant" the assistant, "system" and "tool" stay.
/// Another row comes back as it is.
/// Errors  bad_file "PLACE: …": as above; another speaker, a turn that is no text.
Json as_messages(Json row, const std::string& place);

}  // namespace tern
