#pragma once
// Checks that what must be equal on all ranks is equal, before they work together.

#include <span>
#include <string>
#include <utility>

#include "comm/comm.h"

namespace tern {

/// `facts`: names and values, in words that a person can act on. Every rank calls it; ranks may have unlike facts.
/// Errors  usage, on every rank: some rank's value differs from rank 0's, or only one of the two ranks has the fact ("none"). The message has
///         the first such fact, in rank 0's order, then in the other's, and both values.
void require_equal_facts(Comm&, std::span<const std::pair<std::string, std::string>> facts);

}  // namespace tern
