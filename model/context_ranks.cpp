#include "model/context_ranks.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

int64_t sum_of(std::span<const int64_t> sections) { return std::reduce(sections.begin(), sections.end(), int64_t{0}); }

std::vector<Tensor> blocks_of(const Tensor& all, int ranks) {
  const int64_t rows = all.rows() / ranks;
  std::vector<Tensor> blocks;
  for (int r = 0; r < ranks; ++r) blocks.push_back(all.rows_view(r * rows, (r + 1) * rows));
  return blocks;
}

// Between rows (t, Σ sections) and blocks (ranks · t, Σ sections / ranks), rank after rank: each block has its part of every section.
enum class Way : uint8_t { to_blocks, from_blocks };
void repack(const Tensor& rows, const Tensor& blocks, std::span<const int64_t> sections, int ranks, Way way) {
  const int64_t size = size_of(rows.dtype()), t = rows.rows(), width = sum_of(sections) * size;
  auto* const own = static_cast<std::byte*>(rows.data());
  auto* const packed = static_cast<std::byte*>(blocks.data());
  parallel_ranges(t, 1, 1, [&](int64_t first, int64_t end) {
    for (int64_t row = first; row < end; ++row)
      for (int r = 0; r < ranks; ++r) {
        std::byte* block = packed + (r * t + row) * (width / ranks);
        std::byte* from = own + row * width;
        for (const int64_t section : sections) {
          const auto bytes = static_cast<size_t>(section / ranks * size);
          std::byte* const at = from + r * static_cast<int64_t>(bytes);
          way == Way::to_blocks ? std::memcpy(block, at, bytes) : std::memcpy(at, block, bytes);
          block += bytes, from += section * size;
        }
      }
  });
}

}  // namespace

std::string why_not_in_context(const AttentionSpec& u, int ranks) {
  if (u.cross || u.relative != 0) return "attends to an encoder, or by relative positions";
  if (u.heads % ranks) return fmt::format("has {} heads on a rank", u.heads);
  if (u.kv_heads % ranks) return fmt::format("has {} key/value heads on a rank", u.kv_heads);
  return "";
}

bool swaps_heads(const Compute& c) { return c.context && !c.context->ring; }

AttentionSpec heads_of_context(const AttentionSpec& u, const Compute& c) {
  AttentionSpec part = u;
  if (!swaps_heads(c)) return part;
  part.heads /= c.context->comm.size(), part.kv_heads /= c.context->comm.size();
  return part;
}

int64_t rows_of_context(const Rows& rows) { return rows.starts.back(); }

Tensor rows_for_heads(Tensor own, std::span<const int64_t> sections, Tensor into, const Compute& c) {
  TERN_CHECK(swaps_heads(c), "rows_for_heads: no group that swaps");
  const int ranks = c.context->comm.size();
  const Shape turned{own.rows() * ranks, sum_of(sections) / ranks};
  const DType dtype = own.dtype();
  const Tensor packed = c.arena.allocate(dtype, turned, MemoryClass::workspace);
  repack(own, packed, sections, ranks, Way::to_blocks);
  own = {};
  if (into.empty()) into = c.arena.allocate(dtype, turned, MemoryClass::workspace);
  c.context->comm.all_to_all(blocks_of(packed, ranks), blocks_of(into, ranks));
  return into;
}

Tensor heads_for_rows(Tensor all, std::span<const int64_t> sections, Tensor into, const Compute& c) {
  TERN_CHECK(swaps_heads(c), "heads_for_rows: no group that swaps");
  const int ranks = c.context->comm.size();
  const int64_t rows = all.rows() / ranks;
  const Tensor packed = c.arena.allocate(all.dtype(), all.shape(), MemoryClass::workspace);
  c.context->comm.all_to_all(blocks_of(all, ranks), blocks_of(packed, ranks));
  all = {};
  if (into.empty()) into = c.arena.allocate(packed.dtype(), {rows, sum_of(sections)}, MemoryClass::workspace);
  repack(into, packed, sections, ranks, Way::from_blocks);
  return into;
}

}  // namespace tern
