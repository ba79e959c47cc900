#pragma once
// Which extents of a pass stay in memory. Each is used once in a pass, so what is read depends only on how many bytes stay, not
// on which. The places of the others matter: streamed ones are spread evenly over the pass, so that a short ring hides all that can be
// hidden. If the resident extents were one contiguous stretch, the ring would have to hold all that is read while they are
// used.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// One extent of a pass, in the order of use.
struct PassExtent {
  int64_t bytes = 0;       // to be read where it streams
  int64_t kept_bytes = 0;  // bytes that it takes in memory where it stays
};

/// For each extent whether it stays: those that stay take at most `room` kept bytes together, and their kept bytes are within
/// one extent of the most that is possible (for extents of equal size: the most). Order: the same choice for the same sizes.
std::vector<bool> choose_resident(std::span<const PassExtent>, int64_t room);

/// What the pass reads.
int64_t streamed_bytes(std::span<const PassExtent>, const std::vector<bool>& stays);

}  // namespace tern
