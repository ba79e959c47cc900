#include "apps/chat_history.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace tern {

bool ChatHistory::undo() {
  if (turns_.empty()) return false;
  if (turns_.back().role == "assistant") turns_.pop_back();
  if (!turns_.empty()) turns_.pop_back();
  return true;
}

bool ChatHistory::forget_answer() {
  if (turns_.empty() || turns_.back().role != "assistant") return false;
  turns_.pop_back();
  return true;
}

Json ChatHistory::messages() const {
  Json out = Json::array();
  if (!system.empty()) out.push_back({{"role", "system"}, {"content", system}});
  for (const ChatMessage& m : turns_) out.push_back({{"role", m.role}, {"content", m.content}});
  return out;
}

std::string ChatHistory::to_json() const { return dump_json({{"messages", messages()}}) + "\n"; }

ChatHistory ChatHistory::from_json(std::string_view text, const std::string& place) {
  const Json json = parse_json(text, place, {.max_bytes = size_t{64} << 20});
  if (!json.is_object() || !json.contains("messages") || !json["messages"].is_array())
    throw Error(ErrorKind::bad_file, "{}: expected one object {{\"messages\": [...]}}, as /save writes it", place);
  ChatHistory h;
  for (size_t i = 0; i < json["messages"].size(); ++i) {
    const Json& m = json["messages"][i];
    const auto field = [&](const char* key) {
      if (!m.is_object() || !m.contains(key) || !m[key].is_string())
        throw Error(ErrorKind::bad_file, "{}: message {}: expected the texts 'role' and 'content'", place, i + 1);
      return m[key].get<std::string>();
    };
    const std::string role = field("role"), content = field("content");
    if (i == 0 && role == "system") {
      h.system = content;
      continue;
    }
    const char* expected = h.waits_for_answer() ? "assistant" : "user";
    if (role != expected)
      throw Error(ErrorKind::bad_file, "{}: message {}: role '{}', expected '{}': a conversation goes in turns", place,
                  i + 1, make_printable(role.substr(0, 40)), expected);
    h.turns_.push_back({role, content});
  }
  return h;
}

}  // namespace tern
