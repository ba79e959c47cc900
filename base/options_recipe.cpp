// Recipes: the same keys as the flags, in TOML or JSON. toml++ lives here and nowhere else.
#include <cmath>

#include <fmt/format.h>
#include <toml++/toml.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/io.h"
#include "base/json.h"
#include "base/options_impl.h"
#include "base/text.h"
#include "base/toml.h"

namespace tern {
namespace {

[[noreturn]] void refuse(const std::string& where, std::string_view what) {
  throw Error(ErrorKind::usage, "{}: {}; a value is a text, a number, true or false, or an array of these", where,
              what);
}

std::string number_text(double x, const std::string& where) {
  if (!std::isfinite(x)) throw Error(ErrorKind::usage, "{}: the number is not finite", where);
  return fmt::format("{}", x);
}

std::string toml_text(const toml::node& node, const std::string& where) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  if (const auto* v = node.as_integer()) return std::to_string(v->get());
  if (const auto* v = node.as_floating_point()) return number_text(v->get(), where);
  if (node.is_table()) refuse(where, "a table stands where a value should");
  if (node.is_array()) refuse(where, "an array stands inside an array");
  refuse(where, "a date or time stands where a value should");
}

std::string json_text(const Json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_float()) return number_text(value.get<double>(), where);
  if (value.is_number()) return value.dump();
  refuse(where,
         value.is_null() ? "null is no value: leave the key out" : "an object or array stands where a value should");
}

void read_toml_table(const toml::table& table, const std::string& name, const std::string& path,
                     std::vector<RecipeEntry>& out) {
  for (const auto& [key, node] : table) {
    const std::string full = name.empty() ? std::string(key.str()) : name + "." + std::string(key.str());
    const std::string where = fmt::format("{}:{}: {}", path, node.source().begin.line, full);
    if (node.is_table() && name.empty()) {
      read_toml_table(*node.as_table(), std::string(key.str()), path, out);
      continue;
    }
    RecipeEntry entry{name, std::string(key.str()), {}, node.is_array(), where};
    if (const toml::array* array = node.as_array())
      for (const toml::node& element : *array) entry.texts.push_back(toml_text(element, where));
    else
      entry.texts.push_back(toml_text(node, where));
    out.push_back(std::move(entry));
  }
}

void read_json_object(const Json& object, const std::string& name, const std::string& path,
                      std::vector<RecipeEntry>& out) {
  for (const auto& [key, value] : object.items()) {
    const std::string where = fmt::format("{}: {}", path, name.empty() ? key : name + "." + key);
    if (value.is_object() && name.empty()) {
      read_json_object(value, key, path, out);
      continue;
    }
    RecipeEntry entry{name, key, {}, value.is_array(), where};
    if (value.is_array())
      for (const Json& element : value) entry.texts.push_back(json_text(element, where));
    else
      entry.texts.push_back(json_text(value, where));
    out.push_back(std::move(entry));
  }
}

}  // namespace

bool looks_like_recipe(std::string_view path) {
  return path.ends_with(".toml") || (path.ends_with(".json") && file_name(path) != "config.json");
}

std::vector<RecipeEntry> read_recipe(const std::string& path) {
  const std::string text = real_io().read(path);
  std::vector<RecipeEntry> entries;
  if (path.ends_with(".json")) {
    const Json json = parse_json(text, path);
    if (!json.is_object()) throw Error(ErrorKind::bad_file, "{}: a recipe is a JSON object of options", path);
    if (json.contains("model_type"))
      throw Error(ErrorKind::usage,
                  "{}: this is a model's configuration, not a recipe; rename it to config.json to use it as MODEL",
                  path);
    read_json_object(json, "", path, entries);
    return entries;
  }
  check_toml_depth(text, path);
  try {
    read_toml_table(toml::parse(text, path), "", path, entries);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::bad_file, "{}:{}:{}: not valid TOML: {}", path, error.source().begin.line,
                error.source().begin.column, error.description());
  }
  return entries;
}

std::vector<std::pair<std::string, std::string>> read_recipe_values(const std::string& path) {
  std::vector<std::pair<std::string, std::string>> values;
  for (const RecipeEntry& entry : read_recipe(path))
    values.emplace_back(entry.table.empty() ? entry.key : entry.table + "." + entry.key, join(entry.texts, ", "));
  return values;
}

}  // namespace tern
