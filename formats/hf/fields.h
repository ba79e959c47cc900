#pragma once
// Typed reading of one JSON object of a configuration file: every key is taken once by a reader that knows it, and
// finish() complains about the rest.

#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace tern {

/// Reads the keys of one JSON object. Getters return nothing for an absent key, and for null where Null::absent is
/// given.
/// Errors: bad_file "PLACE: KEY: …": a wrong type. `object` must outlive the reader.
class HfFields {
 public:
  /// `prefix` stands before keys in messages: "rope_scaling.".
  HfFields(const Json& object, std::string place, std::string prefix = "");

  enum class Null { refused, absent };

  bool has(std::string_view key) const;    // present, null or not
  const Json* take(std::string_view key);  // nullptr: absent
  std::optional<int64_t> integer(std::string_view key, Null = Null::refused);
  std::optional<double> number(std::string_view key, Null = Null::refused);
  std::optional<bool> boolean(std::string_view key, Null = Null::refused);
  std::optional<std::string> text(std::string_view key, Null = Null::refused);
  std::optional<std::vector<double>> numbers(std::string_view key);
  std::optional<std::vector<std::string>> texts(std::string_view key,
                                                Null = Null::refused);  // a string counts as a list of one
  std::optional<std::vector<int64_t>> ids(
      std::string_view key);  // a whole number or a list of them; null: an empty list

  /// Throws for the first key that nobody took and `harmless` does not list, with the nearest of all known ones. A key whose
  /// value is null sets nothing, so it passes.
  void finish(std::span<const std::string_view> harmless) const;

  template <class... Args>
  [[noreturn]] void fail(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: {}{}: {}", place_, prefix_, key,
                fmt::format(format, std::forward<Args>(args)...));
  }
  const std::string& place() const { return place_; }

 private:
  const Json* value(std::string_view key, Null);

  const Json& object_;
  std::string place_, prefix_;
  std::set<std::string, std::less<>> known_;  // keys asked for, there or not
};

/// A value for a message: compact JSON, cut to a bearable length.
std::string shown_value(const Json&);

}  // namespace tern
