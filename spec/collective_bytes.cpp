#include "spec/collective_bytes.h"

#include <algorithm>
#include <numeric>

#include "spec/layout.h"

namespace tern {

LinkBytes reduce_scatter_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks) {
  if (rank == peer) return {};
  return {part_of(elements, peer, ranks).size() * size, part_of(elements, rank, ranks).size() * size};
}

LinkBytes all_gather_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks) {
  const LinkBytes scattered = reduce_scatter_bytes(elements, size, rank, peer, ranks);
  return {scattered.received, scattered.sent};
}

LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks) {
  LinkBytes both = reduce_scatter_bytes(elements, size, rank, peer, ranks);
  return both += all_gather_bytes(elements, size, rank, peer, ranks);
}

LinkBytes broadcast_bytes(int64_t elements, int64_t size, int root, int rank, int peer) {
  if (rank == peer) return {};
  return {rank == root ? elements * size : 0, peer == root ? elements * size : 0};
}

LinkBytes all_reduce_bytes(int64_t elements, int64_t size, int rank, int ranks) {
  LinkBytes sum;
  for (int peer = 0; peer < ranks; ++peer) sum += all_reduce_bytes(elements, size, rank, peer, ranks);
  return sum;
}

LinkBytes reduce_scatter_bytes(std::span<const int64_t> parts, int64_t size, int rank) {
  const int64_t own = parts[static_cast<size_t>(rank)], others = static_cast<int64_t>(parts.size()) - 1;
  return {(std::reduce(parts.begin(), parts.end()) - own) * size, others * own * size};
}

LinkBytes all_gather_bytes(std::span<const int64_t> parts, int64_t size, int rank) {
  const LinkBytes scattered = reduce_scatter_bytes(parts, size, rank);
  return {scattered.received, scattered.sent};
}

int64_t staging_elements(int64_t longest_part, int ranks) {
  return (ranks - 1) * std::min(longest_part, piece_of_part(ranks));
}

int64_t piece_of_part(int ranks) { return std::max<int64_t>(1, kPieceElements / ranks); }

}  // namespace tern
