#include "apps/prompts_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/json.h"

namespace tern {
namespace {

PromptLine parse_line(const Json& json, const std::string& place, std::set<std::string>& passed_over) {
  const auto fail = [&](const std::string& why) -> Error { return Error(ErrorKind::bad_file, "{}: {}", place, why); };
  PromptLine line;
  if (json.is_string()) {
    line.prompt = json.get<std::string>();
    return line;
  }
  if (!json.is_object()) throw fail(fmt::format("{}, expected a text or an object with \"prompt\"", json.type_name()));
  bool has_prompt = false;
  for (const auto& [key, value] : json.items()) {
    if (key == "prompt") {
      if (!value.is_string()) throw fail(fmt::format("\"prompt\" is {}, expected a text", value.type_name()));
      line.prompt = value.get<std::string>(), has_prompt = true;
    } else if (key == "id") {
      if (!value.is_string() && !value.is_number_integer())
        throw fail(fmt::format("\"id\" is {}, expected a text or a whole number", value.type_name()));
      line.id = dump_json(value);
    } else if (key == "max_tokens") {
      if (!value.is_number_integer() || value.get<int64_t>() < 1)
        throw fail(fmt::format("\"max_tokens\" is {}, expected a whole number from 1 on", value.dump()));
      line.max_tokens = value.get<int64_t>();
    } else {
      passed_over.insert(key);
    }
  }
  if (!has_prompt)
    throw fail(json.contains("messages") ? "has \"messages\"; tern generate continues the text of \"prompt\""
                                         : "has no \"prompt\"");
  return line;
}

}  // namespace

PromptsFile parse_prompts(std::string_view text, const std::string& place) {
  PromptsFile file;
  std::set<std::string> passed_over;
  for (int64_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string at = fmt::format("{}: line {}", place, number);
    file.lines.push_back(parse_line(parse_json(line, at), at, passed_over));
    file.lines.back().number = number;
  }
  if (file.lines.empty())
    throw Error(ErrorKind::bad_file, "{}: no prompts; expected one JSON text, or object with \"prompt\", a line",
                place);
  file.passed_over.assign(passed_over.begin(), passed_over.end());
  return file;
}

}  // namespace tern
