#include "spec/collective_bytes.h"

#include <algorithm>

#include "spec/layout.h"

namespace tern {

int64_t reduced_elements(int64_t elements, int rank, int ranks) {
  const int64_t full = elements / kPieceElements, rest = elements % kPieceElements;
  return full * part_of(kPieceElements, rank, ranks).size() + part_of(rest, rank, ranks).size();
}

LinkBytes reduce_scatter_bytes(int64_t elements, int64_t size, int rank, int peer, int ranks) {
  if (rank == peer) return {};
  return {reduced_elements(elements, peer, ranks) * size, reduced_elements(elements, rank, ranks) * size};
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

int64_t staging_elements(int64_t elements, int ranks) {
  const int64_t piece = std::min(elements, kPieceElements);
  return (ranks - 1) * ((piece + ranks - 1) / ranks);
}

}  // namespace tern
