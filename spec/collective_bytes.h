#pragma once
// What a collective puts on the links, in closed form: the counters of comm/ are held to it, and plans price it.
// n ranks, direct exchange: every rank sends to every other.

#include <cstdint>
#include <span>

namespace tern {

/// Bytes that one rank sends to one other, or receives from it.
struct LinkBytes {
  int64_t sent = 0, received = 0;
  LinkBytes& operator+=(const LinkBytes& o) { return sent += o.sent, received += o.received, *this; }
  friend bool operator==(const LinkBytes&, const LinkBytes&) = default;
};

/// Ranks' parts pass in pieces, so that fewer elements than this wait to be summed.
inline constexpr int64_t kPieceElements = int64_t{1} << 18;
int64_t piece_of_part(int ranks);

/// Between `rank` and `peer`, of a vector of `elements`, each of `size` bytes, of which a rank has the part that part_of
/// (spec/layout.h) gives it. All-reduce: to the peer go its parts, then
/// this rank's sums; all ranks together 2(n−1)·T. Reduce-scatter and all-gather: half of it.
LinkBytes reduce_scatter_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
LinkBytes all_gather_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
/// The root sends the whole vector to each.
LinkBytes broadcast_bytes(int64_t elements, int64_t size, int root, int rank, int peer);
/// Over all its peers.
LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int ranks);
/// Of unlike parts: `parts` has the elements of each rank's. Over all peers.
LinkBytes reduce_scatter_bytes(std::span<const int64_t> parts, int64_t size, int rank);
LinkBytes all_gather_bytes(std::span<const int64_t> parts, int64_t size, int rank);
/// What waits to be summed at most: the staging that any of the ranks needs, of a part of so many elements at the longest.
int64_t staging_elements(int64_t longest_part, int ranks);

}  // namespace tern
