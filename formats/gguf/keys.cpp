#include "formats/gguf/keys.h"

#include <algorithm>
#include <cmath>

#include "formats/hf/config_impl.h"

namespace tern {

std::optional<int64_t> GgufKeys::integer(std::string_view name) const {
  const auto value = file.find(key(name));
  if (!value) return {};
  if (value->type() != GgufValueType::array) return value->as_i64();
  if (value->size() > static_cast<uint64_t>(kMostLayers))
    fail(key(name), "a list of {}, expected one of each layer, at most {}", value->size(), kMostLayers);
  const std::vector<int64_t> all = value->as_i64s();
  if (all.empty() || !std::all_of(all.begin(), all.end(), [&](int64_t n) { return n == all[0]; }))
    fail(key(name), "differs from layer to layer, which tern does not have");
  return all[0];
}

int64_t GgufKeys::needed(std::string_view name) const {
  const auto value = integer(name);
  if (!value) (void)file.get(key(name));  // throws, naming the nearest key
  if (*value < 1 || *value > INT32_MAX) fail(key(name), "{}, expected 1 to 2147483647", *value);
  return *value;
}

std::optional<double> GgufKeys::number(std::string_view name) const {
  const auto value = file.find(key(name));
  if (!value) return {};
  const double number = value->as_number();
  if (!std::isfinite(number)) fail(key(name), "{}, expected a number", number);
  // The shortest decimal that gives the f32 again: what somebody once typed.
  return value->type() == GgufValueType::f32 ? std::stod(fmt::format("{}", static_cast<float>(number))) : number;
}

double GgufKeys::needed_number(std::string_view name) const {
  if (const auto value = number(name)) return *value;
  return file.get(key(name)).as_number();  // throws, naming the nearest key
}

const GgufTensor& GgufKeys::tensor(std::string_view name) const {
  if (const GgufTensor* t = file.find_tensor(name)) return *t;
  throw Error(ErrorKind::bad_file, "{}: tensor '{}' is missing; is this a whole model?", file.path(), name);
}

}  // namespace tern
