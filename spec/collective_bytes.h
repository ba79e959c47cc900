#pragma once
// Bytes that a collective sends over the links, in closed form. Forecasts use them, and tests compare comm/'s counters
// with them. n ranks, direct exchange: every rank sends to every other.

#include <cstdint>
#include <span>

namespace tern {

/// Bytes that a rank sends and receives: to and from one other rank, or the sum over all others.
struct LinkBytes {
  int64_t sent = 0, received = 0;
  LinkBytes& operator+=(const LinkBytes& o) { return sent += o.sent, received += o.received, *this; }
  friend bool operator==(const LinkBytes&, const LinkBytes&) = default;
};

/// Parts are sent in pieces of piece_of_part = kPieceElements / ranks elements, so at most kPieceElements wait on a rank to be summed.
inline constexpr int64_t kPieceElements = int64_t{1} << 18;
int64_t piece_of_part(int ranks);

/// What `rank` and `peer` exchange for a vector of `elements` elements of `size` bytes each, T bytes in all. part_of (spec/layout.h)
/// gives each rank its part of the vector. In an all-reduce `rank` first sends the summands of the peer's part, then the sums of its
/// own part; all ranks together send 2(n−1)·T. A reduce-scatter is the first half of an all-reduce, an all-gather the second.
LinkBytes reduce_scatter_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
LinkBytes all_gather_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks);
/// The root sends the whole vector to every other rank.
LinkBytes broadcast_bytes(int64_t elements, int64_t size, int root, int rank, int peer);
/// What `rank` exchanges with all its peers together in an all-reduce.
LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int ranks);
/// Bytes for unlike parts, summed over all peers of `rank`: parts[r] is the number of elements of rank r's part.
LinkBytes reduce_scatter_bytes(std::span<const int64_t> parts, int64_t size, int rank);
LinkBytes all_gather_bytes(std::span<const int64_t> parts, int64_t size, int rank);
/// The most elements of staging memory that a rank needs: one piece from each other rank. `longest_part`: elements of
/// the longest part.
int64_t staging_elements(int64_t longest_part, int ranks);

}  // namespace tern
