#pragma once
// Reads the fields of a JSON object that a client sent. Each is checked for its type and range, and no field is ignored in silence.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace tern {

/// The fields of one object. A field that is null counts as absent, as OpenAI's clients send such fields. Errors of every reader: ApiError 400
/// with the field, what it is and what was expected.
class Fields {
 public:
  /// `place`: the object's place in the request; "": it is the whole request. Errors: 400: it is no object.
  explicit Fields(const Json& object, std::string place = "");

  std::optional<int64_t> integer(std::string_view name, int64_t least, int64_t most);
  std::optional<double> real(std::string_view name, double least, double most, bool above_least = false);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::string> text(std::string_view name);
  /// The value of a field, of any type; null: the field is absent.
  const Json* value(std::string_view name);
  /// Accepts a field that has no effect, as it changes no answer. docs/serve.md lists these fields.
  void ignore(std::string_view name) { known_.push_back(name); }
  /// Errors: 400: the field is there. `why` follows "NAME is not supported: " in the message.
  void refuse(std::string_view name, std::string_view why);
  /// Called at the end. Errors: 400: there is a field that no call has named; with the most similar name that a call has named.
  void done() const;
  /// The place of a field in the request, "messages[2].content".
  std::string place_of(std::string_view name) const;
  [[noreturn]] void fail(std::string_view name, const std::string& message) const;

 private:
  const Json& object_;
  std::string place_;
  std::vector<std::string_view> known_;
};

/// A value in words for messages: "3", "\"abc\"", "a list". They are short and printable.
std::string describe_json(const Json&);

}  // namespace tern
