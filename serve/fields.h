#pragma once
// The fields of a JSON object that a client sent: each is read by its type and range, and none is passed over in silence.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

/// A null is as if the field were not there, as OpenAI's clients send it. Every reader may throw ApiError 400 that names
/// the field, what it is and what was expected.
class Fields {
 public:
  /// `place`: where the object stands in the request, "" for the whole. Errors: 400, if it is no object.
  explicit Fields(const Json& object, std::string place = "");

  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  std::optional<double> real(std::string_view name, double least, double most, bool above_least = false);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  /// Null: not there.
  const Json* value(std::string_view name);
  /// Accepts a field that has no effect, as it changes no answer. docs/serve.md lists these fields.
  void ignore(std::string_view name) { known_.push_back(name); }
  /// Errors: 400, if the field is there: `why` follows "NAME is not supported: ".
  void refuse(std::string_view name, std::string_view why);
  /// Errors: 400 at the first field that nobody asked for, with the nearest of those asked for.
  void done() const;

  /// "messages[2].content"
  std::string place_of(std::string_view name) const;
  [[noreturn]] void fail(std::string_view name, const std::string& message) const;

 private:
  const Json& object_;
  std::string place_;
  std::vector<std::string_view> known_;
};

/// What a value is, for messages: "3", "\"abc\"", "a list"; short and printable.
std::string describe_json(const Json&);

}  // namespace tern
