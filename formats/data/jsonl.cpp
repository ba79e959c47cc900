#include "formats/data/jsonl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "formats/chat/conversation_rows.h"

namespace tern {

JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place) {
  Json j = parse_json(line, place);
  if (!j.is_object())
    throw Error(ErrorKind::bad_file,
                "{}: {} instead of an object; expected {{\"text\": …}}, {{\"prompt\": …, \"completion\": …}}, "
                "{{\"messages\": […]}}, {{\"conversations\": […]}} or {{\"instruction\": …, \"output\": …}}",
                place, j.type_name());
  const bool has_system = is_alpaca_row(j) && j.contains("system") && j["system"].is_string() && j["system"] != "";
  if (j.contains("messages") || is_sharegpt_row(j) || has_system) {
    JsonlRecord chat;
    chat.is_chat = true;
    return chat;
  }
  if (is_alpaca_row(j)) {
    InstructionPair pair = alpaca_pair(j, place);
    return {std::move(pair.prompt), std::move(pair.completion), true, false, true};
  }
  std::string* text = nullptr;
  std::string* prompt = nullptr;
  std::string* completion = nullptr;
  for (auto item = j.begin(); item != j.end(); ++item) {
    std::string** into = item.key() == "text"         ? &text
                         : item.key() == "prompt"     ? &prompt
                         : item.key() == "completion" ? &completion
                                                      : nullptr;
    if (!into)
      throw Error(ErrorKind::bad_file,
                  "{}: unknown key '{}'; tern reads 'text', 'prompt' with 'completion', 'messages', 'conversations', "
                  "or 'instruction' with 'output': remove or rename it",
                  place, item.key());
    if (!item.value().is_string())
      throw Error(ErrorKind::bad_file, "{}: '{}' is {} instead of a string", place, item.key(),
                  item.value().type_name());
    *into = item.value().get_ptr<std::string*>();
  }
  if (text && !prompt && !completion) return {std::move(*text), {}, false};
  if (!text && prompt && completion) return {std::move(*prompt), std::move(*completion), true};
  throw Error(
      ErrorKind::bad_file,
      "{}: expected 'text', or both 'prompt' and 'completion', or 'messages', 'conversations', or 'instruction'",
      place);
}

}  // namespace tern
