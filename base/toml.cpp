#include "base/toml.h"

#include <toml++/toml.h>

#include <algorithm>
#include <cmath>

#include "base/io.h"
#include "base/text.h"
#include "base/units.h"

namespace tern {
namespace {

constexpr size_t kMaxBytes = size_t{4} << 20;
using Kind = TomlValue::Kind;

std::string_view word_for(Kind kind) {
  constexpr std::string_view kWords[] = {"a table",        "an array", "a text",
                                         "a whole number", "a number", "true or false"};
  return kWords[static_cast<size_t>(kind)];
}

TomlValue convert(const toml::node& node, const std::string& path) {
  TomlValue v;
  v.line = static_cast<int>(node.source().begin.line);
  if (const auto* table = node.as_table()) {
    v.kind = Kind::table;
    for (const auto& [key, member] : *table) v.members.push_back({std::string(key.str()), convert(member, path)});
  } else if (const auto* array = node.as_array()) {
    v.kind = Kind::array;
    for (const toml::node& element : *array) v.elements.push_back(convert(element, path));
  } else if (const auto* text = node.as_string()) {
    v.kind = Kind::text, v.text = text->get();
  } else if (const auto* integer = node.as_integer()) {
    v.kind = Kind::integer, v.integer = integer->get(), v.real = static_cast<double>(v.integer);
  } else if (const auto* real = node.as_floating_point()) {
    v.kind = Kind::real, v.real = real->get();
    if (!std::isfinite(v.real)) throw Error(ErrorKind::bad_file, "{}:{}: the number is not finite", path, v.line);
  } else if (const auto* boolean = node.as_boolean()) {
    v.kind = Kind::boolean, v.boolean = boolean->get();
  } else {
    throw Error(ErrorKind::bad_file, "{}:{}: a date or time stands where a value should", path, v.line);
  }
  return v;
}

struct Prefix {
  std::string_view name;
  double factor;
};
constexpr Prefix kPrefixes[] = {{"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40}, {"p", 1e-12},
                                {"n", 1e-9},    {"u", 1e-6},    {"m", 1e-3},    {"k", 1e3},     {"M", 1e6},
                                {"G", 1e9},     {"T", 1e12},    {"P", 1e15},    {"", 1}};

// "3.35TB/s" in "B/s" → 3.35e12; nothing if it is none. Factors apart, so that picoseconds come out whole.
std::optional<double> parse_quantity(std::string_view text, std::string_view unit, double scale) {
  text = trim(text);
  const size_t end = std::min(text.find_first_not_of("0123456789.eE+"), text.size());
  std::string_view number = text.substr(0, end), rest = trim(text.substr(end));
  if (number.empty() || !rest.ends_with(unit)) return std::nullopt;
  rest.remove_suffix(unit.size());
  for (const Prefix& p : kPrefixes) {
    if (p.name != rest) continue;
    try {
      const double x = parse_real(number, "");
      const double factor = p.factor * scale;
      return factor < 1 ? x / std::round(1 / factor) : x * factor;
    } catch (const Error&) { return std::nullopt; }
  }
  return std::nullopt;
}

}  // namespace

void check_toml_depth(std::string_view text, const std::string& path) {
  constexpr int kMaxParts = 16, kMaxBrackets = 64;
  int line = 1, parts = 1, brackets = 0;
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::bad_file, "{}:{}: {}; is this such a file?", path, line, what);
  };
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"' || c == '\'') {  // passed over, to its end or to where it is no TOML
      const bool is_long = text.substr(i).starts_with(std::string(3, c));
      const std::string_view end = is_long ? (c == '"' ? "\"\"\"" : "\'\'\'") : std::string_view(&text[i], 1);
      for (i += end.size(); i < text.size() && !text.substr(i).starts_with(end); ++i) {
        if (text[i] == '\n' && !is_long) break;
        line += text[i] == '\n';
        i += c == '"' && text[i] == '\\';
      }
      i += end.size();
      continue;
    }
    if (c == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    line += c == '\n';
    if (c == '.' && ++parts > kMaxParts) fail(fmt::format("a key of more than {} parts", kMaxParts));
    if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') parts = 1;
    if ((c == '[' || c == '{') && ++brackets > kMaxBrackets)
      fail(fmt::format("brackets nested deeper than {} levels", kMaxBrackets));
    brackets = std::max(0, brackets - (c == ']' || c == '}'));
    ++i;
  }
}

TomlValue parse_toml(std::string_view text, const std::string& path) {
  if (text.size() > kMaxBytes)
    throw Error(ErrorKind::bad_file, "{}: {} are too long for such a file; at most {}", path,
                format_bytes(static_cast<int64_t>(text.size())), format_bytes(static_cast<int64_t>(kMaxBytes)));
  check_toml_depth(text, path);
  try {
    return convert(toml::parse(text, path), path);
  } catch (const toml::parse_error& error) {
    throw Error(ErrorKind::bad_file, "{}:{}:{}: not valid TOML: {}", path, error.source().begin.line,
                error.source().begin.column, error.description());
  }
}

TomlValue read_toml_file(const std::string& path) { return parse_toml(real_io().read(path), path); }

std::string toml_text(std::string_view text) {
  return '"' + replace_all(replace_all(make_printable(text), "\\", "\\\\"), "\"", "\\\"") + '"';
}

TomlFields::TomlFields(const TomlValue& table, std::string path, std::string prefix)
    : table_(table), path_(std::move(path)), prefix_(std::move(prefix)) {
  if (table.kind != Kind::table)
    throw Error(ErrorKind::bad_file, "{}:{}: {}: {}, expected a table", path_, table.line,
                std::string_view(prefix_).substr(0, prefix_.empty() ? 0 : prefix_.size() - 1), word_for(table.kind));
}

bool TomlFields::has(std::string_view key) const {
  return std::any_of(table_.members.begin(), table_.members.end(), [&](const auto& m) { return m.key == key; });
}

const TomlValue* TomlFields::take(std::string_view key) {
  known_.emplace(key);
  for (const auto& [name, value] : table_.members)
    if (name == key) return &value;
  return nullptr;
}

const TomlValue* TomlFields::optional(std::string_view key, Kind kind) {
  const TomlValue* v = take(key);
  if (v && v->kind != kind && !(kind == Kind::real && v->kind == Kind::integer))
    fail_at(v->line, key, fmt::format("{}, expected {}", word_for(v->kind), word_for(kind)));
  return v;
}

const TomlValue& TomlFields::require(std::string_view key, Kind kind) {
  if (const TomlValue* v = optional(key, kind)) return *v;
  fail_at(table_.line, key, fmt::format("is missing, expected {}{}", word_for(kind), misspelt(key, kind)));
}

// Nearer than "did you mean" asks for, and of the same kind: keys that are asked for later are not known yet, and some
// are alike (median, mean).
std::string TomlFields::misspelt(std::string_view key, Kind kind) const {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : table_.members)
    if (!known_.contains(name) && (value.kind == kind || (kind == Kind::real && value.kind == Kind::integer)))
      names.push_back(name);
  const std::string_view name = nearest_name(key, names);
  if (name.empty() || edit_distance(name, key) > 1 + static_cast<int>(key.size()) / 8) return "";
  return fmt::format("; line {} has '{}': is that meant?", line_of(name), make_printable(name));
}

std::string TomlFields::text(std::string_view key) { return require(key, Kind::text).text; }
std::string TomlFields::text(std::string_view key, std::string_view fallback) {
  const TomlValue* v = optional(key, Kind::text);
  return v ? v->text : std::string(fallback);
}

int64_t TomlFields::integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> fallback) {
  if (fallback && !has(key)) return take(key), *fallback;
  const int64_t x = require(key, Kind::integer).integer;
  if (x < least || x > most) fail(key, "{}, expected {} to {}", x, least, most);
  return x;
}

double TomlFields::number(std::string_view key, double least, double most, std::optional<double> fallback) {
  if (fallback && !has(key)) return take(key), *fallback;
  const double x = require(key, Kind::real).real;
  if (!(x >= least && x <= most)) fail(key, "{}, expected {} to {}", x, least, most);
  return x;
}

double TomlFields::quantity(std::string_view key, std::string_view unit, std::optional<double> fallback) {
  if (fallback && !has(key)) return take(key), *fallback;
  const std::string& text = require(key, Kind::text).text;
  const bool time = unit == "s";
  const std::optional<double> x = parse_quantity(text, unit, time ? 1e12 : 1);
  if (!x)
    fail(key, "'{}' is no quantity in {}, such as \"{}{}\"", make_printable(text), unit, time ? "4u" : "80G", unit);
  if (!(*x <= (unit == "FLOP/s" ? 1e21 : 1e18))) fail(key, "'{}' is beyond what is counted", make_printable(text));
  return *x;
}

int64_t TomlFields::bytes(std::string_view key, std::optional<int64_t> fallback) {
  if (fallback && !has(key)) return take(key), *fallback;
  const double x = quantity(key, "B");
  if (x != std::floor(x)) fail(key, "not a whole number of bytes");
  return static_cast<int64_t>(x);
}

int64_t TomlFields::picoseconds(std::string_view key, std::optional<int64_t> fallback) {
  if (fallback && !has(key)) return take(key), *fallback;
  return std::llround(quantity(key, "s"));
}

DType TomlFields::dtype(std::string_view key) {
  const std::string name = text(key);
  try {
    return dtype_from_name(name);
  } catch (const Error& e) { fail(key, "{}", e.what()); }
}

void TomlFields::version(int64_t known) {
  if (const int64_t x = integer("version", 1, 1 << 20); x != known) fail("version", "{}, this tern reads {}", x, known);
}

std::vector<int64_t> TomlFields::integers(std::string_view key) {
  std::vector<int64_t> out;
  for (const TomlValue& v : require(key, Kind::array).elements) {
    if (v.kind != Kind::integer || v.integer < 1) fail_at(v.line, key, "expected whole numbers from 1 on");
    out.push_back(v.integer);
  }
  return out;
}

std::vector<double> TomlFields::numbers(std::string_view key) {
  std::vector<double> out;
  for (const TomlValue& v : require(key, Kind::array).elements) {
    if (v.kind != Kind::integer && v.kind != Kind::real) fail_at(v.line, key, "expected numbers");
    out.push_back(v.real);
  }
  return out;
}

void TomlFields::finish() const {
  const std::vector<std::string_view> names(known_.begin(), known_.end());
  for (const auto& [key, value] : table_.members)
    if (!known_.contains(key))
      fail_at(value.line, make_printable(key), "is no key here" + did_you_mean(key, names, prefix_));
}

int TomlFields::line_of(std::string_view key) const {
  for (const auto& [name, value] : table_.members)
    if (name == key) return value.line;
  return table_.line;
}

void TomlFields::fail_at(int line, std::string_view key, const std::string& what) const {
  throw Error(ErrorKind::bad_file, "{}:{}: {}{}: {}", path_, line, prefix_, key, what);
}

}  // namespace tern
