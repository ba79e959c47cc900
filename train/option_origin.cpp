#include "train/option_origin.h"

#include <fmt/format.h>

#include "base/options.h"

namespace tern {

std::string as_given(const Options& o, std::string_view name) {
  const Options::Value& value = o.value(name);
  if (value.origin != Origin::recipe && value.origin != Origin::environment) return fmt::format("--{}", name);
  const std::string key = fmt::format(": {}", value.where.substr(value.where.rfind(' ') + 1));
  const bool says_key = value.origin == Origin::recipe && value.where.ends_with(key);
  return fmt::format("--{} (of {})", name, value.where.substr(0, value.where.size() - (says_key ? key.size() : 0)));
}

}  // namespace tern
