// Reading JSON members with errors that say where they are.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "formats/tokenizer/members.h"
#include "formats/tokenizer/tokenizer_impl.h"

namespace tern {

namespace {

[[noreturn]] void wrong_type(const Json& value, const std::string& place, const char* expected) {
  throw Error(ErrorKind::bad_file, "{}: {} instead of {}; is the file damaged or made by a newer library?", place,
              value.type_name(), expected);
}

}  // namespace

std::string path_in(const std::string& place, std::string_view key) {
  return place + (place.find(": ") == std::string::npos ? ": " : ".") + std::string(key);
}

const Json* find_member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const Json& require_member(const Json& object, const char* key, const std::string& place) {
  if (const Json* found = find_member(object, key)) return *found;
  throw Error(ErrorKind::bad_file, "{}: key '{}' is missing; is the file complete?", place, key);
}

std::string read_string(const Json& object, const char* key, const std::string& place) {
  const Json& value = require_member(object, key, place);
  if (!value.is_string()) wrong_type(value, path_in(place, key), "a string");
  return value.get<std::string>();
}

bool read_bool(const Json& object, const char* key, std::optional<bool> fallback, const std::string& place) {
  const Json* value = find_member(object, key);
  if ((!value || value->is_null()) && fallback) return *fallback;
  if (!value) require_member(object, key, place);
  if (!value->is_boolean()) wrong_type(*value, path_in(place, key), "true or false");
  return value->get<bool>();
}

int64_t read_int(const Json& object, const char* key, int64_t low, int64_t high, const std::string& place) {
  const Json& value = require_member(object, key, place);
  if (!value.is_number_integer()) wrong_type(value, path_in(place, key), "a whole number");
  if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw Error(ErrorKind::bad_file, "{}: {} is out of range [{}, {}]", path_in(place, key), value.get<uint64_t>(), low,
                high);
  const int64_t n = value.get<int64_t>();
  if (n < low || n > high)
    throw Error(ErrorKind::bad_file, "{}: {} is out of range [{}, {}]", path_in(place, key), n, low, high);
  return n;
}

bool is_token_id(const Json& value) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned()) return value.get<uint64_t>() <= static_cast<uint64_t>(INT32_MAX);
  return value.get<int64_t>() >= 0 && value.get<int64_t>() <= INT32_MAX;
}

void require_object(const Json& value, const std::string& place) {
  if (!value.is_object()) wrong_type(value, place, "an object");
}

void check_keys(const Json& object, std::initializer_list<const char*> known, const std::string& place) {
  for (const auto& item : object.items())
    if (std::ranges::find(known, item.key(), [](const char* k) { return std::string(k); }) == known.end()) {
      std::string list;
      for (const char* k : known) list += (list.empty() ? "" : ", ") + std::string(k);
      throw Error(ErrorKind::bad_file, "{}: unknown key '{}'; tern reads: {}", place, item.key(), list);
    }
}

bool decode_base64(std::string_view text, std::string& out) {
  static const std::array<int8_t, 256> values = [] {
    std::array<int8_t, 256> v{};
    v.fill(-1);
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < digits.size(); ++i) v[static_cast<uint8_t>(digits[i])] = static_cast<int8_t>(i);
    return v;
  }();
  out.clear();
  if (text.size() % 4 != 0) return false;
  while (text.ends_with('=')) text.remove_suffix(1);
  uint32_t bits = 0;
  int num_bits = 0;
  for (const char c : text) {
    const int value = values[static_cast<uint8_t>(c)];
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    num_bits += 6;
    if (num_bits >= 8) {
      num_bits -= 8;
      out += static_cast<char>(bits >> num_bits);
    }
  }
  return true;
}

}  // namespace tern
