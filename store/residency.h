#pragma once
// Which extents of a pass stay in memory. Each is used once in a pass, so any choice reads as much. Their places matter: the
// streamed ones are spread evenly over the pass, so that a short ring hides all that can be hidden. A stretch of resident
// extents in one piece would need a ring as long as what is read meanwhile.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// One extent of a pass, in the order of use.
struct PassExtent {
  int64_t bytes = 0;       // to be read where it streams
  int64_t kept_bytes = 0;  // that it takes where it stays
};

/// Whether each stays: those that stay take at most `room` together, and what streams is within one extent of the least
/// that is possible (of extents of one size: the least). Order  the same choice for the same sizes.
std::vector<bool> choose_resident(std::span<const PassExtent>, int64_t room);

/// What the pass reads.
int64_t streamed_bytes(std::span<const PassExtent>, const std::vector<bool>& stays);

}  // namespace tern
