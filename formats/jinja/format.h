#pragma once
// Python's ways to format values as text: "%", str.format, json.dumps, strftime.

#include <ctime>
#include <optional>
#include <string>

#include "formats/jinja/jinja_impl.h"

namespace tern::jinja {

/// Python's text % arguments.
MarkedText percent_format(Evaluator&, const MarkedText& format, const Value& arguments, bool safe);
/// str.format with plain fields; other fields are errors.
MarkedText brace_format(Evaluator&, const MarkedText& format, const CallArguments& arguments);

/// The arguments of json.dumps.
struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ", key_separator = ": ";
};
/// json.dumps of a value. Errors: Failure: a value that JSON cannot express.
MarkedText to_json(Meter* meter, const Value& v, const JsonStyle& style);

/// The time by strftime's format.
std::string format_time(const std::tm& now, const std::string& format);

}  // namespace tern::jinja
