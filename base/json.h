#pragma once
// JSON, read strictly, as the file may come from a stranger: one value, no duplicate keys, bounded depth and size, valid
// UTF-8, finite numbers. Errors name the file and the byte. Code that looks inside a value includes <nlohmann/json.hpp> in
// its .cpp.

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
/// Integers that fit int64 or uint64 stay integers; others become doubles. Building an object of n keys takes O(n) time
/// (nlohmann's own parser takes O(n²) for ordered objects); finding a key in it takes O(n). Errors  bad_file: "PLACE: byte N
/// (line L, column C): fact, expectation".
Json parse_json(std::string_view text, std::string_view place, const JsonLimits& = {});

/// Reads and parses a file. Errors: those of parse_json, with the path as `place`; those of reading the file.
Json read_json_file(const std::string& path, const JsonLimits& = {});

/// Compact text, or text indented by `indent` blanks. Errors: bug: a number is not finite (nlohmann would silently write
/// null), or a string is not UTF-8.
std::string dump_json(const Json&, int indent = -1);

/// `text` as a JSON string literal with quotes; invalid UTF-8 becomes U+FFFD.
std::string quote_json(std::string_view text);

}  // namespace tern
