#include "formats/data/jsonl.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "formats/chat/conversation_rows.h"

namespace tern {
namespace {

// What stands before both answers: messages of a list, or none where a text only says again what the first message says.
Json messages_before(const Json& j, const std::string& place) {
  if (!j.contains("prompt")) return Json::array();
  const Json& prompt = j["prompt"];
  if (prompt.is_array()) return prompt;
  for (const char* answer : {"chosen", "rejected"})
    if (j[answer].empty() || !j[answer][0].is_object() || j[answer][0].value("content", Json()) != prompt)
      throw Error(
          ErrorKind::bad_file,
          "{}: 'prompt' is a text and '{}' a list of messages that does not begin with it; give both as lists, or "
          "both as texts",
          place, answer);
  return Json::array();
}

// {"prompt", "chosen", "rejected"}, as TRL has pairs.
JsonlRecord parse_pair(Json& j, const std::string& place) {
  for (const auto& [key, value] : j.items())
    if (key != "prompt" && key != "chosen" && key != "rejected" && key != "tools")
      throw Error(
          ErrorKind::bad_file,
          "{}: unknown key '{}' beside 'chosen' and 'rejected'; a pair has 'prompt', 'chosen', 'rejected': remove it",
          place, key);
  for (const char* answer : {"chosen", "rejected"})
    if (!j.contains(answer)) throw Error(ErrorKind::bad_file, "{}: a pair without '{}'", place, answer);
  JsonlRecord pair;
  pair.is_pair = true;
  if (j["chosen"].is_array() && j["rejected"].is_array()) {
    pair.is_chat = true;
    const Json before = messages_before(j, place);
    const auto line = [&](const char* answer) {
      Json messages = before;
      for (const Json& message : j[answer]) messages.push_back(message);
      Json chat = {{"messages", std::move(messages)}};
      if (j.contains("tools")) chat["tools"] = j["tools"];
      return dump_json(chat);
    };
    pair.text = line("chosen"), pair.rejected = line("rejected");
    return pair;
  }
  for (const char* key : {"prompt", "chosen", "rejected"})
    if (!j.contains(key) || !j[key].is_string())
      throw Error(ErrorKind::bad_file,
                  "{}: '{}' of a pair is {} instead of a string; expected three texts, or two lists of "
                  "messages",
                  place, key, j.contains(key) ? j[key].type_name() : "absent");
  if (j.contains("tools")) throw Error(ErrorKind::bad_file, "{}: 'tools' beside texts; they belong to messages", place);
  pair.has_completion = true;
  pair.text = j["prompt"].get<std::string>(), pair.completion = j["chosen"].get<std::string>();
  pair.rejected = j["rejected"].get<std::string>();
  return pair;
}

}  // namespace

JsonlRecord parse_jsonl_record(std::string_view line, const std::string& place) {
  Json j = parse_json(line, place);
  if (!j.is_object())
    throw Error(ErrorKind::bad_file,
                "{}: {} instead of an object; expected {{\"text\": …}}, {{\"prompt\": …, \"completion\": …}}, "
                "{{\"messages\": […]}}, {{\"conversations\": […]}} or {{\"instruction\": …, \"output\": …}}",
                place, j.type_name());
  if (j.contains("chosen") || j.contains("rejected")) return parse_pair(j, place);
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
