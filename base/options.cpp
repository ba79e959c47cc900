#include "base/options.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/error.h"
#include "base/familiar_words.h"
#include "base/json.h"
#include "base/options_impl.h"
#include "base/text.h"
#include "base/units.h"

#include <nlohmann/json.hpp>

extern char** environ;

namespace tern {
namespace {

std::string& name_of_program() {
  static std::string name = "tern";  // of the process, like argv[0]
  return name;
}

bool parse_on_off(std::string_view text, const std::string& where) {
  const std::string word = lowercase(trim(text));
  if (word == "on" || word == "true" || word == "yes" || word == "1") return true;
  if (word == "off" || word == "false" || word == "no" || word == "0") return false;
  throw Error(ErrorKind::usage, "{}: '{}' is neither on nor off", where, text);
}

// A range that is open at its upper end is named whole, as its end is the value that is tried.
void check_range(const OptionSpec& spec, double x, std::string_view text, const std::string& where) {
  if (spec.below_max && !(x >= spec.min && x < spec.max))
    throw Error(ErrorKind::usage, "{}: {}; expected {} up to, but not, {}", where, text, spec.min, spec.max);
  if (x < spec.min || (spec.above_min && x == spec.min))
    throw Error(ErrorKind::usage, "{}: {} is too small; it must be {} {}", where, text,
                spec.above_min ? "more than" : "at least", spec.min);
  if (x > spec.max) throw Error(ErrorKind::usage, "{}: {} is too large; it must be at most {}", where, text, spec.max);
}

// A list in one string, as environment variables carry it: a JSON array, or one element.
std::vector<std::string> parse_list(std::string_view text, const std::string& where) {
  if (!trim(text).starts_with('[')) return {std::string(text)};
  const Json array = [&] {
    try {
      return parse_json(text, where);
    } catch (const Error& error) {
      throw Error(ErrorKind::usage, "{}; a list is a JSON array of strings, or one plain text", error.what());
    }
  }();
  std::vector<std::string> list;
  for (const Json& element : array) {
    if (!element.is_string()) throw Error(ErrorKind::usage, "{}: a list is a JSON array of strings", where);
    list.push_back(element.get<std::string>());
  }
  return list;
}

}  // namespace

void set_option_value(Options::Value& value, std::string_view text, Origin origin, const std::string& where) {
  const OptionSpec& spec = *value.spec;
  value.text = text;
  switch (spec.type) {
    case OptionType::flag:
    case OptionType::toggle:
      value.boolean = parse_on_off(text, where);
      break;
    case OptionType::integer:
      value.integer = parse_integer(text, where);
      value.real = static_cast<double>(value.integer);
      check_range(spec, value.real, text, where);
      break;
    case OptionType::bytes:
      value.integer = parse_bytes(text, where);
      check_range(spec, static_cast<double>(value.integer), text, where);
      break;
    case OptionType::real:
      value.real = parse_real(text, where);
      check_range(spec, value.real, text, where);
      break;
    case OptionType::count:
      value.real = parse_count(text, where);
      check_range(spec, value.real, text, where);
      break;
    case OptionType::seconds:
      value.real = parse_seconds(text, where);
      check_range(spec, value.real, text, where);
      break;
    case OptionType::choice:
      if (std::find(spec.choices.begin(), spec.choices.end(), text) == spec.choices.end())
        throw Error(ErrorKind::usage, "{}: '{}' is not one of {}{}", where, text, fmt::join(spec.choices, ", "),
                    did_you_mean(text, spec.choices));
      break;
    case OptionType::path:
      if (text.empty()) throw Error(ErrorKind::usage, "{}: the path is empty", where);
      break;
    case OptionType::text:
      break;
    case OptionType::list: {
      // The first element of a stronger origin replaces what a weaker one gave; further ones add.
      if (value.origin != origin || !value.set) value.list.clear();
      if (origin == Origin::environment)
        value.list = parse_list(text, where);
      else
        value.list.emplace_back(text);
      value.text = join(value.list, ", ");
      break;
    }
  }
  value.set = true;
  value.origin = origin;
  value.where = origin == Origin::fallback ? "" : where;
}

const Options::Value& Options::value(std::string_view name) const {
  for (const auto& [key, value] : values_)
    if (key == name) return value;
  TERN_CHECK(false, "verb {} has no option '{}'", verb_ ? verb_->name : "?", name);
}

bool Options::knows(std::string_view name) const {
  return std::ranges::any_of(values_, [&](const auto& option) { return option.first == name; });
}

bool Options::flag(std::string_view name) const {
  const Value& v = value(name);
  TERN_CHECK(v.spec->type == OptionType::flag || v.spec->type == OptionType::toggle, "option '{}' is no flag", name);
  return v.boolean;
}

int64_t Options::integer(std::string_view name) const {
  const Value& v = value(name);
  TERN_CHECK(v.spec->type == OptionType::integer || v.spec->type == OptionType::bytes, "option '{}' is no integer",
             name);
  TERN_CHECK(v.set, "option '{}' has no value", name);
  return v.integer;
}

double Options::real(std::string_view name) const {
  const Value& v = value(name);
  const OptionType type = v.spec->type;
  TERN_CHECK(type == OptionType::real || type == OptionType::count || type == OptionType::seconds,
             "option '{}' is no number", name);
  TERN_CHECK(v.set, "option '{}' has no value", name);
  return v.real;
}

const std::string& Options::text(std::string_view name) const {
  const Value& v = value(name);
  TERN_CHECK(v.spec->type == OptionType::text || v.spec->type == OptionType::path || v.spec->type == OptionType::choice,
             "option '{}' is no text", name);
  return v.text;
}

const std::vector<std::string>& Options::list(std::string_view name) const {
  const Value& v = value(name);
  TERN_CHECK(v.spec->type == OptionType::list, "option '{}' is no list", name);
  return v.list;
}

const std::string& Options::positional(std::string_view name) const {
  for (const auto& [key, value] : positionals_)
    if (key == name) return value.text;
  TERN_CHECK(false, "verb {} has no positional '{}'", verb_ ? verb_->name : "?", name);
}

const std::string& program_name() { return name_of_program(); }
void set_program_name(std::string name) { name_of_program() = std::move(name); }

Environment process_environment() {
  Environment environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string verb_key(std::string_view name) { return replace_all(std::string(name), " ", "-"); }

size_t words_of_verb(const OptionTable& table, std::span<const std::string> words) {
  if (words.size() < 2) return words.size();
  const std::string two = words[0] + " " + words[1];
  return std::any_of(table.verbs.begin(), table.verbs.end(), [&](const VerbSpec& v) { return v.name == two; }) ? 2 : 1;
}

const VerbSpec& find_verb(const OptionTable& table, std::string_view name) {
  std::vector<std::string_view> names;
  for (const VerbSpec& verb : table.verbs) {
    if (verb.name == name || verb_key(verb.name) == name) return verb;
    names.push_back(verb.name);
  }
  const std::string_view ours = familiar_verb(name);
  const bool familiar = std::find(names.begin(), names.end(), ours) != names.end();
  const std::string hint = familiar ? did_you_mean(ours, {ours}) : did_you_mean(name, names);
  throw Error(ErrorKind::usage, "no verb '{}'{} `{} help` lists all verbs", name, hint.empty() ? ";" : hint,
              program_name());
}

std::vector<const OptionSpec*> options_of(const OptionTable& table, std::string_view verb) {
  std::vector<const OptionSpec*> rows;
  const std::string key = verb_key(verb);
  for (const OptionSpec& option : table.options)
    for (const std::string_view word : split_words(option.verbs))
      if (word == key) rows.push_back(&option);
  return rows;
}

std::string env_name(const OptionSpec& option) {
  return option.env.empty() ? "TERN_" + replace_all(uppercase(option.name), "-", "_") : std::string(option.env);
}

}  // namespace tern
