#include "serve/fields.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/utf8.h"
#include "serve/api_error.h"

namespace tern {
namespace {

// At most `most` bytes of a text that may be a stranger's, cut between characters.
std::string excerpt(std::string text, size_t most) {
  if (text.size() <= most) return text;
  text.resize(most);
  text.resize(text.size() - incomplete_utf8_tail(text));
  return text + "…";
}

}  // namespace

std::string describe_json(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  return excerpt(value.dump(), 60);
}

Fields::Fields(const Json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object.is_object())
    throw ApiError(
        400,
        fmt::format("{}: {}, expected an object", place_.empty() ? "the request body" : place_, describe_json(object)),
        place_);
}

std::string Fields::place_of(std::string_view name) const {
  return place_.empty() ? std::string(name) : fmt::format("{}.{}", place_, name);
}

void Fields::fail(std::string_view name, const std::string& message) const {
  const std::string place = place_of(name);
  throw ApiError(400, fmt::format("{}: {}", place, message), place);
}

const Json* Fields::value(std::string_view name) {
  known_.push_back(name);
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

std::optional<int64_t> Fields::integer(std::string_view name, int64_t least, int64_t most) {
  const Json* json = value(name);
  if (!json) return std::nullopt;
  // 16.0 is a whole number in JSON; beyond 2^53 a double is no longer the number that was typed.
  std::optional<int64_t> number;
  if (json->is_number_unsigned()) {
    if (json->get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)) number = json->get<int64_t>();
  } else if (json->is_number_integer()) {
    number = json->get<int64_t>();
  } else if (json->is_number_float()) {
    const double real = json->get<double>();
    if (std::nearbyint(real) == real && std::abs(real) <= 0x1p53) number = static_cast<int64_t>(real);
  }
  if (!number || *number < least || *number > most)
    fail(name, fmt::format("{}, expected a whole number from {} to {}", describe_json(*json), least, most));
  return number;
}

std::optional<double> Fields::real(std::string_view name, double least, double most, bool above_least) {
  const Json* json = value(name);
  if (!json) return std::nullopt;
  const double number = json->is_number() ? json->get<double>() : NAN;
  if (!(number >= least && number <= most) || (above_least && number == least))
    fail(name, fmt::format("{}, expected a number {} {} {} {}", describe_json(*json), above_least ? "above" : "from",
                           least, above_least ? "and at most" : "to", most));
  return number;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* json = value(name);
  if (!json) return std::nullopt;
  if (!json->is_boolean()) fail(name, fmt::format("{}, expected true or false", describe_json(*json)));
  return json->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) {
  const Json* json = value(name);
  if (!json) return std::nullopt;
  if (!json->is_string()) fail(name, fmt::format("{}, expected a text", describe_json(*json)));
  return json->get<std::string>();
}

void Fields::refuse(std::string_view name, std::string_view why) {
  if (value(name)) fail(name, fmt::format("is not supported: {}", why));
}

void Fields::done() const {
  for (const auto& [name, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
    const std::string shown = excerpt(make_printable(name), 60);
    const std::string place = place_of(shown);
    throw ApiError(400, fmt::format("{}: there is no such field{}", place, did_you_mean(shown, known_)), place);
  }
}

}  // namespace tern
