#include "kernels/cpu/tile_attention.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/region_errors.h"
#include "base/rounding.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_attention_table.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

constexpr int64_t kLeastRows = 128;  // of a part: below, packing the keys anew costs a fourth of what it saves

const TileAttentionTable& table() { return TERN_TABLE_OF(tile_attention_table, active_isa()); }

/// With `sums`, that many of them.
void check(const AttentionShape& s, std::span<const int64_t> starts, bool sums, size_t lse) {
  TERN_CHECK(table().present, "tile_attention: {} does not have it", name_of(active_isa()));
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

/// A head of a sequence, or a part of it: queries [first, last), or keys if `of_keys`; both, if it is the whole.
struct Task {
  int64_t row, length, kv_head, first, last;
  bool whole, of_keys;
  double work() const { return static_cast<double>(last - first) * static_cast<double>(length); }
};

/// A task as a sequence of its own: from the first key that its queries see to its last query, or from its first key to
/// the last query that sees one.
struct View {
  int64_t start, length, first_query, num_keys;
};
View view_of(const AttentionShape& shape, const Task& t) {
  if (t.whole) return {0, t.length, 0, t.length};
  if (t.of_keys) {
    const int64_t seen = shape.window > 0 ? t.last + shape.window - 1 : t.length;
    return {t.first, std::min(t.length, round_up(seen, kTileAttentionBlock)) - t.first, 0, t.last - t.first};
  }
  const int64_t first_key = shape.window > 0 ? std::max<int64_t>(0, t.first - shape.window + 1) : 0;
  const int64_t start = first_key / kTileAttentionBlock * kTileAttentionBlock;
  return {start, t.last - start, t.first - start, t.last - start};
}

/// Heads whole, but those that would keep one thread busy when the others have nothing left: they go in parts. Parts
/// pack keys anew, and of the backward's five products two are made twice, by queries for dq and by keys for dk and dv.
/// No bit depends on it: a query's results are sums over its keys alone, and a key's over queries in their order.
std::vector<Task> deal(const AttentionShape& shape, std::span<const int64_t> starts, bool backward) {
  const double threads = omp_get_max_threads(), extra = backward ? 1.6 : 1.1;
  double all = 0;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const auto length = static_cast<double>(starts[s + 1] - starts[s]);
    all += length * length * static_cast<double>(shape.kv_heads);
  }
  std::vector<Task> tasks;
  for (size_t s = 0; s + 1 < starts.size(); ++s) {
    const int64_t row = starts[s], length = starts[s + 1] - row;
    if (length == 0) continue;
    const double shares = static_cast<double>(length) * static_cast<double>(length) * threads / all;
    const auto wanted = static_cast<int64_t>(std::ceil(backward ? shares : 2 * shares));
    const int64_t parts = std::min(wanted, length / kLeastRows);
    const int64_t each = round_up(ceil_div(length, std::max<int64_t>(parts, 1)), kTileAttentionBlock);
    for (int64_t head = 0; head < shape.kv_heads; ++head) {
      if (shares <= extra || parts < 2) {
        tasks.push_back({row, length, head, 0, length, true, false});
        continue;
      }
      for (int64_t first = 0; first < length; first += each)
        for (const bool of_keys : {false, true})
          if (backward || !of_keys)
            tasks.push_back({row, length, head, first, std::min(length, first + each), false, of_keys});
    }
  }
  std::stable_sort(tasks.begin(), tasks.end(), [](const Task& a, const Task& b) { return a.work() > b.work(); });
  return tasks;
}

/// The most of any task. Not the longest's: a backward takes fewer queries at a time the more keys there are.
int64_t scratch_of(const AttentionShape& shape, const std::vector<Task>& tasks, bool backward) {
  int64_t most = 0, last = -1;
  for (const Task& t : tasks) {
    const int64_t keys = view_of(shape, t).num_keys;
    if (keys != last) most = std::max(most, table().scratch_bytes(shape, keys, backward));
    last = keys;
  }
  return most;
}

/// Every task, on whichever thread is free.
template <class Run>
void for_each_task(const AttentionShape& shape, std::span<const int64_t> starts, bool backward, Run run) {
  const std::vector<Task> tasks = deal(shape, starts, backward);
  const int64_t bytes = scratch_of(shape, tasks, backward);
  RegionErrors errors;
#pragma omp parallel if (tasks.size() > 1)
  {
    void* scratch = nullptr;
    errors.guard([&] { scratch = thread_scratch(bytes); });
#pragma omp for schedule(dynamic, 1)
    for (size_t i = 0; i < tasks.size(); ++i)
      if (scratch) run(tasks[i], view_of(shape, tasks[i]), scratch);
  }
  errors.rethrow();
}

}  // namespace

bool has_tile_attention() { return table().present; }

int64_t tile_attention_scratch_bytes(const AttentionShape& shape, std::span<const int64_t> starts, bool backward) {
  return scratch_of(shape, deal(shape, starts, backward), backward);
}

int64_t tile_attention_tasks(const AttentionShape& shape, std::span<const int64_t> starts, bool backward) {
  return static_cast<int64_t>(deal(shape, starts, backward).size());
}

int64_t tile_attention_scratch_bytes(const AttentionShape& shape, int64_t longest, bool backward) {
  if (!table().present || longest <= 0) return 0;
  // Short sequences take larger chunks of queries, so a longer one may want less: up to here each length is asked.
  constexpr int64_t kStep = 32, kAsked = 8192;
  int64_t most = table().scratch_bytes(shape, longest, backward);
  for (int64_t length = kStep; length < std::min(longest, kAsked); length += kStep)
    most = std::max(most, table().scratch_bytes(shape, length, backward));
  return most;
}

void tile_attention_forward(const AttentionShape& shape, std::span<const int64_t> starts, const bf16* q, const bf16* k,
                            const bf16* v, bf16* out, std::span<float> lse) {
  check(shape, starts, !lse.empty(), lse.size());
  const auto forward = table().forward;
  for_each_task(shape, starts, false, [&](const Task& t, const View& view, void* scratch) {
    const int64_t row = t.row + view.start;
    forward(shape,
            {.kv_head = t.kv_head,
             .length = view.length,
             .first_query = view.first_query,
             .num_keys = view.num_keys,
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
  for_each_task(shape, starts, true, [&](const Task& t, const View& view, void* scratch) {
    const int64_t row = t.row + view.start;
    const bool queries = t.whole || !t.of_keys, keys = t.whole || t.of_keys;
    backward(shape,
             {.kv_head = t.kv_head,
              .length = view.length,
              .first_query = view.first_query,
              .num_keys = view.num_keys,
              .q = q + row * shape.q_stride,
              .k = k + row * shape.kv_stride,
              .v = v + row * shape.kv_stride,
              .out = out + row * shape.out_stride,
              .dout = dout + row * shape.out_stride,
              .lse = lse.data() + row * shape.heads,
              .dq = queries ? dq + row * shape.q_stride : nullptr,
              .dk = keys ? dk + row * shape.kv_stride : nullptr,
              .dv = keys ? dv + row * shape.kv_stride : nullptr},
             scratch);
  });
}

}  // namespace tern
