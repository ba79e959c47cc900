#include "comm/transport.h"

#include <fmt/format.h>

namespace tern {

std::string describe_tag(uint64_t tag) {
  constexpr const char* names[] = {"reduce-scatter",    "all-gather", "broadcast",    "all-to-all",
                                   "integers",          "values",     "redistribute", "between stages",
                                   "server and worker", "message",    "ledger",       "around a ring"};
  const uint64_t kind = tag & 0xff;
  return fmt::format("{} {}", kind < std::size(names) ? names[kind] : "unknown operation", tag >> 8);
}

}  // namespace tern
