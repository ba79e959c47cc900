#include "kernels/cpu/tile_attention.h"

#include <algorithm>

#include "base/error.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_attention_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

const TileAttentionTable& table() { return TERN_TABLE_OF(tile_attention_table, active_isa()); }

/// With `sums`, that many of them.
void check(const AttentionShape& s, std::span<const int64_t> starts, bool sums, size_t lse) {
  TERN_CHECK(table().present, "tile_attention: {} has no tiles", name_of(active_isa()));
  TERN_CHECK(s.kv_heads > 0 && s.heads > 0 && s.heads % s.kv_heads == 0 && s.head_dim > 0 && s.scale > 0 &&
                 s.window >= 0 && s.q_stride >= s.heads * s.head_dim && s.kv_stride >= s.kv_heads * s.head_dim &&
                 s.out_stride >= s.heads * s.head_dim && s.causal && s.softcap == 0 && !s.slopes,
             "tile_attention: {} heads, {} kv heads, {} wide, scale {}, window {}, strides {} {} {}", s.heads,
             s.kv_heads, s.head_dim, s.scale, s.window, s.q_stride, s.kv_stride, s.out_stride);
  TERN_CHECK(std::is_sorted(starts.begin(), starts.end()) &&
                 (!sums || lse >= static_cast<size_t>(starts.empty() ? 0 : starts.back() * s.heads)),
             "tile_attention: {} sequences up to row {}, {} sums", starts.size(), starts.empty() ? 0 : starts.back(),
             lse);
}

/// Every key head of every sequence, on whichever thread is free.
template <class Run>
void for_each_head(const AttentionShape& shape, std::span<const int64_t> starts, bool backward, Run run) {
  const int64_t bytes = tile_attention_scratch_bytes(shape, starts, backward);
  if (bytes == 0) return;
  const auto tasks = static_cast<int64_t>(starts.size() - 1) * shape.kv_heads;
#pragma omp parallel if (tasks > 1)
  {
    void* scratch = thread_scratch(bytes);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; ++i) {
      const int64_t row = starts[i / shape.kv_heads], length = starts[i / shape.kv_heads + 1] - row;
      if (length > 0) run(i % shape.kv_heads, row, length, scratch);
    }
  }
}

}  // namespace

bool has_tile_attention() { return table().present; }

int64_t tile_attention_scratch_bytes(const AttentionShape& shape, std::span<const int64_t> starts, bool backward) {
  int64_t most = 0;
  for (size_t s = 0; s + 1 < starts.size(); ++s)
    if (const int64_t length = starts[s + 1] - starts[s]; length > 0)
      most = std::max(most, table().scratch_bytes(shape, length, backward));
  return most;
}

void tile_attention_forward(const AttentionShape& shape, std::span<const int64_t> starts, const bf16* q, const bf16* k,
                            const bf16* v, bf16* out, std::span<float> lse) {
  check(shape, starts, !lse.empty(), lse.size());
  const auto forward = table().forward;
  for_each_head(shape, starts, false, [&](int64_t kv_head, int64_t row, int64_t length, void* scratch) {
    forward(shape,
            {.kv_head = kv_head,
             .length = length,
             .q = q + row * shape.q_stride,
             .k = k + row * shape.kv_stride,
             .v = v + row * shape.kv_stride,
             .new_out = out + row * shape.out_stride,
             .new_lse = lse.empty() ? nullptr : lse.data() + row * shape.heads},
            scratch);
  });
}

void tile_attention_backward(const AttentionShape& shape, std::span<const int64_t> starts, const bf16* q, const bf16* k,
                             const bf16* v, const bf16* out, const bf16* dout, std::span<const float> lse, bf16* dq,
                             bf16* dk, bf16* dv) {
  check(shape, starts, true, lse.size());
  const auto backward = table().backward;
  for_each_head(shape, starts, true, [&](int64_t kv_head, int64_t row, int64_t length, void* scratch) {
    backward(shape,
             {.kv_head = kv_head,
              .length = length,
              .q = q + row * shape.q_stride,
              .k = k + row * shape.kv_stride,
              .v = v + row * shape.kv_stride,
              .out = out + row * shape.out_stride,
              .dout = dout + row * shape.out_stride,
              .lse = lse.data() + row * shape.heads,
              .dq = dq + row * shape.q_stride,
              .dk = dk + row * shape.kv_stride,
              .dv = dv + row * shape.kv_stride},
             scratch);
  });
}

}  // namespace tern
