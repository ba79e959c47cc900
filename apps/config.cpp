// `tern config show`: what a verb would use, and who said so.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "apps/options.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "train/settings.h"

namespace tern {
namespace {

std::string origin_text(const Options::Value& value) {
  switch (value.origin) {
    case Origin::fallback:
      return value.set ? "default" : "not set";
    case Origin::recipe:
      return "recipe " + value.where;
    case Origin::environment:
      return "environment " + value.where;
    case Origin::command_line:
      return "command line";
  }
  return "";
}

Json json_value(const Options::Value& value) {
  if (!value.set) return nullptr;
  switch (value.spec->type) {
    case OptionType::flag:
    case OptionType::toggle:
      return value.boolean;
    case OptionType::integer:
    case OptionType::bytes:
      return value.integer;
    case OptionType::real:
    case OptionType::count:
    case OptionType::seconds:
      return value.real;
    case OptionType::list:
      return value.list;
    default:
      return value.text;
  }
}

std::string shown_value(const Options::Value& value) {
  if (!value.set) return "-";
  if (value.spec->type == OptionType::flag || value.spec->type == OptionType::toggle)
    return value.boolean ? "on" : "off";
  if (value.spec->type == OptionType::list) return json_value(value).dump();
  return value.text;
}

struct Row {
  std::string name, value, origin;
  Json json;
};
Row row_of(const std::string& name, const Options::Value& value) {
  return {name, shown_value(value), origin_text(value), json_value(value)};
}

// What holds is shown, not the table's default that the verb replaces.
void show_derived(const DerivedValue& derived, std::vector<Row>& rows) {
  for (Row& row : rows) {
    if (row.name != derived.name) continue;
    row.json = parse_json(derived.value, "derived value");
    row.value = row.json.is_string() ? row.json.get<std::string>() : derived.value;
    row.origin = "derived: " + derived.why;
  }
}

}  // namespace

std::string show_config(const OptionTable& table, const std::vector<std::string>& arguments,
                        const Environment& environment) {
  if (arguments.empty() || arguments.front() != "show")
    throw Error(ErrorKind::usage, "config {}; write: tern config show [VERB] [RECIPE] [options]",
                arguments.empty() ? "needs the word show" : fmt::format("does not know '{}'", arguments.front()));
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  std::string verb = "train";
  const bool is_path =
      !rest.empty() && (rest.front().find_first_of("./") != std::string::npos || rest.front().starts_with('-'));
  if (!rest.empty() && !is_path) {
    const size_t words = words_of_verb(table, rest);
    verb = find_verb(table, words == 2 ? rest[0] + " " + rest[1] : rest[0]).name;
    rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(words));
  }
  const Options options = resolve_options(table, verb, rest, environment, false);

  std::vector<Row> rows;
  for (const auto& [name, value] : options.positionals()) rows.push_back(row_of(lowercase(name), value));
  for (const auto& [name, value] : options.values()) rows.push_back(row_of(name, value));
  if (verb == "train")
    for (const DerivedValue& derived : derived_values(options)) show_derived(derived, rows);

  const bool as_json = std::any_of(rest.begin(), rest.end(), [](const std::string& word) { return word == "--json"; });
  if (as_json) {
    Json json = {{"verb", verb}, {"recipe", options.recipe()}, {"options", Json::object()}};
    for (const Row& row : rows) json["options"][row.name] = {{"value", row.json}, {"origin", row.origin}};
    return dump_json(json, 2) + "\n";
  }
  size_t name_width = 0, value_width = 0;
  for (const Row& row : rows) {
    name_width = std::max(name_width, row.name.size());
    value_width = std::max(value_width, std::min<size_t>(row.value.size(), 40));
  }
  std::string out = fmt::format("# tern {}\n", verb);
  for (const Row& row : rows)
    out += fmt::format("{:<{}}  {:<{}}  {}\n", row.name, name_width, row.value, value_width, row.origin);
  return out;
}

}  // namespace tern
