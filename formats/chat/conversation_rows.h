#pragma once
// Rows of instruction data in the forms of other tools, read as a pair of texts or as the messages of a conversation.

#include <string>

#include "base/json.h"

namespace tern {

/// Whether the row is in the form of Stanford Alpaca's data: {"instruction": …, "input": …, "output": …}, also with
/// "system".
bool is_alpaca_row(const Json& row);
/// Whether the row is in the form of ShareGPT's and Vicuna's data: {"conversations": [{"from": …, "value": …}]}.
bool is_sharegpt_row(const Json& row);

/// A row for a model without a chat template: the prompt is Alpaca's own, with or without an input.
/// Source: tatsu-lab/stanford_alpaca, train.py, PROMPT_DICT.
struct InstructionPair {
  std::string prompt, completion;
};
/// The pair of a row for which is_alpaca_row holds.
/// Errors  bad_file "PLACE: …": an unknown key (with the nearest known one), no text where one is expected, an empty
/// output; a system prompt, which Alpaca's text has no place for.
InstructionPair alpaca_pair(const Json& row, const std::string& place);

/// The row as {"messages": […], "tools": […]}. In an Alpaca row the user says the instruction, a line end and the
/// input. In a ShareGPT row "human" and "user" become the user; "gpt", "chatgpt", "bing", "bard", "model" and
/// "assistant" become the assistant; "system" and "tool" keep their names. A row in another form comes back unchanged.
/// Errors  bad_file "PLACE: …": as above; another speaker, a turn that is no text.
Json as_messages(Json row, const std::string& place);

}  // namespace tern
