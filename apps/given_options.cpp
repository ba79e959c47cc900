#include "apps/given_options.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

void refuse_given_but(const Options& o, std::span<const std::string_view> allowed, std::string_view why) {
  for (const auto& [name, value] : o.values()) {
    const bool given = value.set && (value.origin == Origin::command_line || value.origin == Origin::recipe);
    if (given && std::find(allowed.begin(), allowed.end(), name) == allowed.end())
      throw Error(ErrorKind::usage, "{}: --{} {}", o.verb().name, name, why);
  }
}

}  // namespace tern
