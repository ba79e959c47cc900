#include "base/exact_json.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tern {
namespace {

bool is_held(std::string_view digits) {
  int64_t i = 0;
  uint64_t u = 0;
  const char *begin = digits.data(), *end = begin + digits.size();
  return std::from_chars(begin, end, i).ec == std::errc() || std::from_chars(begin, end, u).ec == std::errc();
}

}  // namespace

Json parse_exact_json(std::string_view text, std::string_view place, const JsonLimits& limits) {
  Json json = parse_json(text, place, limits);
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {  // a string, whole: it is sound JSON
      for (++at; text[at] != '"'; ++at)
        if (text[at] == '\\') ++at;
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
    const std::string_view number = text.substr(at, end - at);
    const bool whole = number.find_first_of(".eE") == std::string_view::npos;
    if (number.size() > 18 && whole && !is_held(number))
      throw Error(ErrorKind::bad_file,
                  "{}: byte {}: {}: a whole number beyond 64 bits would be rounded; write it as a text", place, at,
                  number.size() > 40 ? std::string(number.substr(0, 40)) + "…" : std::string(number));
    at = std::max(end, at + 1);
  }
  return json;
}

}  // namespace tern
