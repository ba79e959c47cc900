#include "apps/given_options.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

bool is_asked_for(const Options& o, std::string_view name) {
  const Options::Value& v = o.value(name);
  return o.given(name) && !(v.origin == Origin::recipe && v.text == v.spec->fallback);
}

void refuse_given_but(const Options& o, std::span<const std::string_view> allowed, std::string_view why) {
  for (const auto& [name, value] : o.values()) {
    const bool given = value.set && (value.origin == Origin::command_line || value.origin == Origin::recipe);
    if (given && std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      throw Error(ErrorKind::usage, "{}: --{} {}", o.verb().name, name, why);
  }
}

}  // namespace tern
