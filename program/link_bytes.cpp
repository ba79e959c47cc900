#include "program/link_bytes.h"

#include <iterator>
#include <numeric>

#include "base/error.h"

namespace tern {

LinkBytes link_bytes(const Instruction& i, int64_t element_bytes, int rank, int ranks, std::span<const int64_t> parts) {
  if (i.axis == MeshAxis::none) return {};
  if (i.op == Opcode::reduce && i.axis == MeshAxis::all) {
    const int64_t vector = std::reduce(parts.begin(), parts.end()), values = (ranks - 1) * (i.message_bytes - vector);
    LinkBytes sum = reduce_scatter_bytes(parts, 1, rank);
    sum += all_gather_bytes(parts, 1, rank);
    return sum += {values, values};
  }
  if (i.op == Opcode::reduce) return all_reduce_bytes(i.message_bytes / element_bytes, element_bytes, rank, ranks);
  const bool norm = i.op == Opcode::norm;
  const int64_t refusal = norm ? int64_t{sizeof(double)} : 0, in_parts = std::reduce(parts.begin(), parts.end());
  TERN_CHECK(in_parts + refusal == i.message_bytes, "link_bytes: {}: parts of {} bytes and {} for all, of {}",
             to_string(i), in_parts, refusal, i.message_bytes);
  const bool of_parts = i.op == Opcode::scatter || i.op == Opcode::gather || i.op == Opcode::update;
  TERN_CHECK(!of_parts || rank < std::ssize(parts), "link_bytes: {}: {} parts, this is rank {}", to_string(i),
             parts.size(), rank);
  if (i.op == Opcode::scatter) return reduce_scatter_bytes(parts, 1, rank);
  if (i.op == Opcode::gather || i.op == Opcode::update) return all_gather_bytes(parts, 1, rank);
  if (norm) {
    LinkBytes both{(ranks - 1) * refusal, (ranks - 1) * refusal};
    return both += parts.empty() ? LinkBytes{} : all_gather_bytes(parts, 1, rank);
  }
  return {};
}

LinkBytes exchange_link_bytes(const Instruction& i, int ranks) {
  const int64_t bytes = i.exchanged_bytes / ranks * (ranks - 1);
  return {bytes, bytes};
}

LinkBytes ring_link_bytes(const Instruction& i) { return {i.ring_bytes, i.ring_bytes}; }

LinkBytes swap_link_bytes(const Instruction& i, int ranks) {
  const int64_t bytes = i.swapped_bytes / ranks * (ranks - 1);
  return {bytes, bytes};
}

LinkBytes routed_link_bytes(const Instruction& i, int ranks, const RowsSent& rows) {
  if (i.routed_bytes == 0) return {};
  const int64_t one_way = i.routed_bytes / (2 * rows.own);  // bytes of a row
  const int64_t bytes = (rows.left + rows.came) * one_way + i.told_bytes / ranks * (ranks - 1);
  return {bytes, bytes};
}

}  // namespace tern
