#pragma once
// What has to be alike on all ranks, compared before they work together.

#include <span>
#include <string>
#include <utility>

#include "comm/comm.h"

namespace tern {

/// `facts`: names and values, in words that a person can act on. Every rank calls it with the same names in the same order.
/// Errors  usage, on every rank, naming the first fact in which one differs from rank 0, and both values.
void require_equal_facts(Comm&, std::span<const std::pair<std::string, std::string>> facts);

}  // namespace tern
