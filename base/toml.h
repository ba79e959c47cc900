#pragma once
// Reads tern's own TOML files into a small tree with line numbers. TomlFields reads a table key by key, with types, and
// refuses keys that nobody reads. Only toml.cpp and the reader of recipes use toml++.

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"

namespace tern {

struct TomlMember;

struct TomlValue {
  enum class Kind : uint8_t { table, array, text, integer, real, boolean };
  Kind kind = Kind::table;
  std::string text;
  int64_t integer = 0;
  double real = 0;  // set for an integer too
  bool boolean = false;
  std::vector<TomlMember> members;  // of a table, in ascending order of keys
  std::vector<TomlValue> elements;  // of an array
  int line = 0;
};
struct TomlMember {  // not a std::pair: clang cannot tell whether a pair of an incomplete type is constructible
  std::string key;
  TomlValue value;
};

/// Errors: bad_file "PATH:LINE:COLUMN: …": not valid TOML; dates, or numbers that are not finite; nested too deep
/// (check_toml_depth); longer than 4 MiB.
TomlValue parse_toml(std::string_view text, const std::string& path);
TomlValue read_toml_file(const std::string& path);
/// To be called before toml++ parses a text: toml++ sets no limit to the parts of a key, and walking or freeing its tree
/// recurses once for each part. Errors: bad_file "PATH:LINE: …": a key of more than 16 parts, brackets more than 64 deep.
void check_toml_depth(std::string_view text, const std::string& path);
/// The text as a basic string of TOML, in quotes, with control characters made printable.
std::string toml_text(std::string_view);

/// Reads one table. Every error is bad_file "PATH:LINE: KEY: fact, expectation". The table must outlive the reader.
class TomlFields {
 public:
  /// `prefix` stands before keys in messages: "device.h100.".
  TomlFields(const TomlValue& table, std::string path, std::string prefix = "");

  bool has(std::string_view key) const;
  const TomlValue* take(std::string_view key);  // nullptr: absent
  const TomlValue& require(std::string_view key, TomlValue::Kind);
  const TomlValue* optional(std::string_view key, TomlValue::Kind);

  std::string text(std::string_view key);
  std::string text(std::string_view key, std::string_view fallback);
  /// A whole number within [least, most].
  int64_t integer(std::string_view key, int64_t least, int64_t most, std::optional<int64_t> fallback = {});
  /// A number within [least, most].
  double number(std::string_view key, double least, double most, std::optional<double> fallback = {});
  /// The number of a text such as "80GB", "3.35TB/s", "4us", "989TFLOP/s", in `unit` ("B", "B/s", "FLOP/s"), but for "s" in
  /// picoseconds. Prefixes p n u m k M G T P and Ki Mi Gi Ti. Not negative, at most 1e21 FLOP/s or 1e18 of another unit.
  double quantity(std::string_view key, std::string_view unit, std::optional<double> fallback = {});
  int64_t bytes(std::string_view key, std::optional<int64_t> fallback = {});        // whole bytes
  int64_t picoseconds(std::string_view key, std::optional<int64_t> fallback = {});  // whole picoseconds
  DType dtype(std::string_view key);                                                // "bf16"
  void version(int64_t known);                          // reads the key "version"; any value but `known` is refused
  std::vector<int64_t> integers(std::string_view key);  // at least 1 each
  std::vector<double> numbers(std::string_view key);

  /// Throws for the first key of the table that nobody took, and names the most similar key that was asked for. (The error
  /// for a missing required key names the key of the table that looks like it.)
  void finish() const;

  template <class... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(line_of(key), key, fmt::format(format, std::forward<Args>(args)...));
  }
  const std::string& prefix() const { return prefix_; }

 private:
  int line_of(std::string_view key) const;
  std::string misspelt(std::string_view key, TomlValue::Kind) const;
  [[noreturn]] void fail_at(int line, std::string_view key, const std::string& what) const;

  const TomlValue& table_;
  std::string path_, prefix_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace tern
