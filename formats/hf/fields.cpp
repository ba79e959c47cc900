#include "formats/hf/fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "formats/safetensors/safetensors_impl.h"

namespace tern {

std::string shown_value(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "an empty list" : "a list";
  if (value.is_string()) return shown(value.get_ref<const std::string&>());
  return value.dump();
}

HfFields::HfFields(const Json& object, std::string place, std::string prefix)
    : object_(object), place_(std::move(place)), prefix_(std::move(prefix)) {
  if (!object.is_object())
    throw Error(ErrorKind::bad_file, "{}: {}{}, expected an object", place_, prefix_.empty() ? "" : prefix_ + " is ",
                shown_value(object));
}

bool HfFields::has(std::string_view key) const { return object_.find(std::string(key)) != object_.end(); }

const Json* HfFields::take(std::string_view key) {
  known_.emplace(key);
  const auto it = object_.find(std::string(key));
  return it == object_.end() ? nullptr : &*it;
}

const Json* HfFields::value(std::string_view key, Null null) {
  const Json* found = take(key);
  return found && found->is_null() && null == Null::absent ? nullptr : found;
}

std::optional<int64_t> HfFields::integer(std::string_view key, Null null) {
  const Json* v = value(key, null);
  if (!v) return {};
  if (!v->is_number_integer()) fail(key, "{}, expected a whole number", shown_value(*v));
  if (v->is_number_unsigned() && v->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    fail(key, "{}, expected a whole number below 2^63", shown_value(*v));
  return v->get<int64_t>();
}

std::optional<double> HfFields::number(std::string_view key, Null null) {
  const Json* v = value(key, null);
  if (!v) return {};
  if (!v->is_number()) fail(key, "{}, expected a number", shown_value(*v));
  return v->get<double>();
}

std::optional<bool> HfFields::boolean(std::string_view key, Null null) {
  const Json* v = value(key, null);
  if (!v) return {};
  if (!v->is_boolean()) fail(key, "{}, expected true or false", shown_value(*v));
  return v->get<bool>();
}

std::optional<std::string> HfFields::text(std::string_view key, Null null) {
  const Json* v = value(key, null);
  if (!v) return {};
  if (!v->is_string()) fail(key, "{}, expected a string", shown_value(*v));
  return v->get<std::string>();
}

std::optional<std::vector<double>> HfFields::numbers(std::string_view key) {
  const Json* v = value(key, Null::refused);
  if (!v) return {};
  if (!v->is_array()) fail(key, "{}, expected a list of numbers", shown_value(*v));
  std::vector<double> result;
  for (const Json& x : *v) {
    if (!x.is_number()) fail(key, "holds {}, expected numbers", shown_value(x));
    result.push_back(x.get<double>());
  }
  return result;
}

std::optional<std::vector<std::string>> HfFields::texts(std::string_view key, Null null) {
  const Json* v = value(key, null);
  if (!v) return {};
  if (v->is_string()) return std::vector<std::string>{v->get<std::string>()};
  if (!v->is_array()) fail(key, "{}, expected a list of strings", shown_value(*v));
  std::vector<std::string> result;
  for (const Json& x : *v) {
    if (!x.is_string()) fail(key, "holds {}, expected strings", shown_value(x));
    result.push_back(x.get<std::string>());
  }
  return result;
}

std::optional<std::vector<int64_t>> HfFields::ids(std::string_view key) {
  const Json* v = value(key, Null::refused);
  if (!v) return {};
  if (v->is_null()) return std::vector<int64_t>{};
  std::vector<int64_t> result;
  const auto add = [&](const Json& x) {
    const bool fits = x.is_number_unsigned()
                          ? x.get<uint64_t>() <= uint64_t{INT32_MAX}
                          : x.is_number_integer() && x.get<int64_t>() >= INT32_MIN && x.get<int64_t>() <= INT32_MAX;
    if (!fits) fail(key, "{}, expected token ids: whole numbers from 0 to 2^31 - 1", shown_value(x));
    result.push_back(x.get<int64_t>());
  };
  if (v->is_array()) {
    for (const Json& x : *v) add(x);
  } else {
    add(*v);
  }
  return result;
}

void HfFields::finish(std::span<const std::string_view> harmless) const {
  for (const auto& [key, value] : object_.items()) {
    if (value.is_null()) continue;  // nothing is set
    if (known_.contains(key) || std::find(harmless.begin(), harmless.end(), key) != harmless.end()) continue;
    std::vector<std::string_view> candidates(known_.begin(), known_.end());
    candidates.insert(candidates.end(), harmless.begin(), harmless.end());
    const std::string hint = key.size() > 200 ? "" : did_you_mean(key, candidates);
    throw Error(ErrorKind::bad_file,
                "{}: unknown key {}{}{}; tern will not guess what it changes, remove it if it changes nothing", place_,
                prefix_.empty() ? "" : "in " + prefix_.substr(0, prefix_.size() - 1) + ": ", shown(key), hint);
  }
}

}  // namespace tern
