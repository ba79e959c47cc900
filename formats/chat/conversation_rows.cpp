#include "formats/chat/conversation_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

void check_keys(const Json& object, const std::vector<std::string_view>& known, const std::string& place) {
  for (const auto& [key, value] : object.items())
    if (std::ranges::find(known, key) == known.end())
      throw Error(ErrorKind::bad_file, "{}: unknown key '{}'{}", place, make_printable(key.substr(0, 60)),
                  key.size() > 60 ? "" : did_you_mean(key, known));
}

// "" where it is absent or null.
std::string text_of(const Json& object, const char* key, const std::string& place) {
  if (!object.contains(key) || object[key].is_null()) return "";
  if (!object[key].is_string())
    throw Error(ErrorKind::bad_file, "{}: '{}' is {} instead of a string", place, key, object[key].type_name());
  return object[key].get<std::string>();
}

struct AlpacaRow {
  std::string instruction, input, output, system;
};
AlpacaRow alpaca_row(const Json& row, const std::string& place) {
  // "text", which some files have beside them, is Alpaca's prompt and output again.
  check_keys(row, {"instruction", "input", "output", "system", "text"}, place);
  AlpacaRow r{text_of(row, "instruction", place), text_of(row, "input", place), text_of(row, "output", place),
              text_of(row, "system", place)};
  if (r.instruction.empty()) throw Error(ErrorKind::bad_file, "{}: 'instruction' is empty", place);
  if (r.output.empty())
    throw Error(ErrorKind::bad_file, "{}: 'output' is empty, so there is nothing to learn from it", place);
  return r;
}

std::string role_of(const std::string& speaker, const std::string& where) {
  static const std::vector<std::pair<std::string_view, std::string_view>> kRoles = {
      {"human", "user"},     {"user", "user"},      {"gpt", "assistant"},   {"chatgpt", "assistant"},
      {"bing", "assistant"}, {"bard", "assistant"}, {"model", "assistant"}, {"assistant", "assistant"},
      {"system", "system"},  {"tool", "tool"},      {"observation", "tool"}};
  for (const auto& [name, role] : kRoles)
    if (speaker == name) return std::string(role);
  std::vector<std::string_view> names;
  for (const auto& [name, role] : kRoles) names.push_back(name);
  throw Error(ErrorKind::bad_file, "{}: from '{}', expected {}{}", where, make_printable(speaker.substr(0, 60)),
              fmt::join(names, ", "), speaker.size() > 60 ? "" : did_you_mean(speaker, names));
}

Json sharegpt_messages(const Json& row, const std::string& place) {
  check_keys(row, {"conversations", "system", "tools", "id"}, place);
  const Json& turns = row["conversations"];
  if (!turns.is_array())
    throw Error(ErrorKind::bad_file, "{}: conversations: {}, expected a list", place, turns.type_name());
  Json messages = Json::array();
  if (const std::string system = text_of(row, "system", place); !system.empty())
    messages.push_back({{"role", "system"}, {"content", system}});
  for (size_t i = 0; i < turns.size(); ++i) {
    const std::string where = fmt::format("{}: turn {}", place, i + 1);
    if (!turns[i].is_object())
      throw Error(ErrorKind::bad_file, "{}: {}, expected an object", where, turns[i].type_name());
    check_keys(turns[i], {"from", "value"}, where);
    for (const char* key : {"from", "value"})
      if (!turns[i].contains(key) || !turns[i][key].is_string())
        throw Error(ErrorKind::bad_file, "{}: has no text '{}'", where, key);
    messages.push_back({{"role", role_of(turns[i]["from"].get<std::string>(), where)}, {"content", turns[i]["value"]}});
  }
  return messages;
}

}  // namespace

bool is_alpaca_row(const Json& row) { return row.is_object() && row.contains("instruction"); }
bool is_sharegpt_row(const Json& row) { return row.is_object() && row.contains("conversations"); }

InstructionPair alpaca_pair(const Json& row, const std::string& place) {
  AlpacaRow r = alpaca_row(row, place);
  if (!r.system.empty())
    throw Error(ErrorKind::bad_file,
                "{}: 'system' has no place in Alpaca's text, which a model without a chat template reads; give "
                "--chat-template FILE, or leave it out",
                place);
  std::string prompt = r.input.empty()
                           ? "Below is an instruction that describes a task. Write a response that appropriately "
                             "completes the request.\n\n### Instruction:\n" +
                                 r.instruction + "\n\n### Response:"
                           : "Below is an instruction that describes a task, paired with an input that provides "
                             "further context. Write a response that appropriately completes the request.\n\n### "
                             "Instruction:\n" +
                                 r.instruction + "\n\n### Input:\n" + r.input + "\n\n### Response:";
  return {std::move(prompt), std::move(r.output)};
}

Json as_messages(Json row, const std::string& place) {
  if (is_alpaca_row(row)) {
    const AlpacaRow r = alpaca_row(row, place);
    Json messages = Json::array();
    if (!r.system.empty()) messages.push_back({{"role", "system"}, {"content", r.system}});
    messages.push_back(
        {{"role", "user"}, {"content", r.input.empty() ? r.instruction : r.instruction + "\n" + r.input}});
    messages.push_back({{"role", "assistant"}, {"content", r.output}});
    return {{"messages", std::move(messages)}};
  }
  if (!is_sharegpt_row(row)) return row;
  Json whole = {{"messages", sharegpt_messages(row, place)}};
  if (row.contains("tools")) whole["tools"] = row["tools"];
  return whole;
}

}  // namespace tern
