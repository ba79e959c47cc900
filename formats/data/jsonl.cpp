#include "formats/data/jsonl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"

namespace tern {

JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place) {
  Json j = parse_json(line, place);
  if (!j.is_object())
    throw Error(ErrorKind::bad_file,
                "{}: {} instead of an object; expected {{\"text\": …}}, {{\"prompt\": …, \"completion\": …}} or "
                "{{\"messages\": […]}}",
                place, j.type_name());
  if (j.contains("messages")) {
    JsonlRecord chat;
    chat.is_chat = true;
    return chat;
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
      throw Error(
          ErrorKind::bad_file,
          "{}: unknown key '{}'; tern reads 'text', 'prompt' with 'completion', or 'messages': remove or rename it",
          place, item.key());
    if (!item.value().is_string())
      throw Error(ErrorKind::bad_file, "{}: '{}' is {} instead of a string", place, item.key(),
                  item.value().type_name());
    *into = item.value().get_ptr<std::string*>();
  }
  if (text && !prompt && !completion) return {std::move(*text), {}, false};
  if (!text && prompt && completion) return {std::move(*prompt), std::move(*completion), true};
  throw Error(ErrorKind::bad_file, "{}: expected 'text', or both 'prompt' and 'completion', or 'messages'", place);
}

}  // namespace tern
