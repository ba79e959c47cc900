#include "comm/transport.h"

#include <fmt/format.h>

namespace tern {

std::string describe_tag(uint64_t tag) {
  // In the order of MessageKind.
  constexpr const char* names[] = {"reduce-scatter",    "all-gather",      "broadcast",          "all-to-all",
                                   "agreement",         "gathered values", "redistribution",     "stage message",
                                   "server and worker", "message",         "message comparison", "ring message"};
  const uint64_t kind = tag & 0xff;
  return fmt::format("{} {}", kind < std::size(names) ? names[kind] : "unknown operation", tag >> 8);
}

}  // namespace tern
