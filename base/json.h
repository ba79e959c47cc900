#pragma once
// JSON, read as strictly as a stranger's file should be: one value, no duplicate keys, bounded depth and size, valid UTF-8,
// finite numbers; errors name the file and the byte. Users that look inside a value include <nlohmann/json.hpp> in
// their .cpp.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace tern {

using Json = nlohmann::ordered_json;  // keeps the order of keys

struct JsonLimits {
  size_t max_bytes = size_t{1} << 30;
  int max_depth = 64;
  size_t max_string_bytes = size_t{1} << 30;
};

/// Parses one JSON value; white space may surround it, nothing else.
/// `place` opens every message: usually the path of the file.
/// Integers that fit int64 or uint64 stay integers; others become doubles. Building an object of n keys is O(n)
/// (nlohmann's own parser is quadratic for ordered objects), looking a key up stays linear. Errors  bad_file: "PLACE:
/// byte N (line L, column C): fact, expectation".
Json parse_json(std::string_view text, std::string_view place, const JsonLimits& = {});

/// Reads and parses a file. Errors: those of parse_json, with the path as `place`; those of reading the file.
Json read_json_file(const std::string& path, const JsonLimits& = {});

/// Compact text, or indented by `indent` blanks. Errors: bug, if a number is not finite or a string is not UTF-8: a log
/// or a result must not turn a NaN into null silently.
std::string dump_json(const Json&, int indent = -1);

/// `text` as a JSON string literal with quotes; invalid UTF-8 becomes U+FFFD.
std::string quote_json(std::string_view text);

}  // namespace tern
