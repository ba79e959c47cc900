#include "comm/transport.h"

#include <fmt/format.h>

namespace tern {

std::string describe_tag(uint64_t tag) {
  // In the order of MessageKind.
  constexpr const char* names[] = {"reduce-scatter",    "all-gather",      "broadcast",          "all-to-all",
                                   "agreement",         "gathered values", "redistribution",     "stage message",
                                   "server and worker", "message",         "message comparison", "ring message"};
  const uint64_t kind = tag & 0xff, number = tag >> 8;
  if (kind == static_cast<uint64_t>(MessageKind::stage))  // numbered by exec/stage_messages.cpp
    return fmt::format("{} of unit {}, micro-batch {}", number & 1 ? "gradient" : "output", number >> 33,
                       number >> 1 & 0xffffffff);
  return fmt::format("{} {}", kind < std::size(names) ? names[kind] : "unknown operation", number);
}

}  // namespace tern
