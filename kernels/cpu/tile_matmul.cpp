#include "kernels/cpu/tile_matmul.h"

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/rounding.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern {
namespace {

constexpr int64_t kLeftElements = 1 << 19;  // of a task's packed rows: 1 MiB, half of a 2 MiB L2
constexpr int64_t kMostRows = 256;
constexpr int64_t kThinElements = 1 << 17;  // of a weight, taken at a time: 256 KiB, 10 to 20 microseconds of memory
constexpr int64_t kShares = 64;             // of one product, each with a counter of its own
constexpr int64_t kParallelFrom = 1 << 18;  // multiply-adds: below, waking a thread costs more than it gives

/// task(i, tasks, scratch) for each i, on whichever thread is free. The calling thread's scratch is `mine`, of `bytes`,
/// as it may hold more behind it that all tasks read.
template <class Task>
void run_tasks(int64_t threads, int64_t tasks, void* mine, int64_t bytes, Task task) {
  if (threads == 1 || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, tasks, mine);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    void* const scratch = omp_get_thread_num() == 0 ? mine : thread_scratch(bytes);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; ++i) task(i, tasks, scratch);
  }
}

/// task(begin, end, scratch) on ranges of at most `step` that cover [0, count): a thread takes them in order from its
/// own share, so that memory is read on from where it was, then from what is left of the others'. Scratch as in
/// run_tasks.
template <class Task>
void run_shares(int64_t threads, int64_t count, int64_t step, void* mine, int64_t bytes, Task task) {
  if (threads == 1 || count <= step) return task(int64_t{0}, count, mine);
  struct alignas(64) Share {
    std::atomic<int64_t> next;
    int64_t end;
  };
  const int64_t parts = std::min({threads, kShares, ceil_div(count, step)});
  Share shares[kShares];
  for (int64_t i = 0; i < parts; ++i) {
    shares[i].next.store(count * i / parts, std::memory_order_relaxed);
    shares[i].end = count * (i + 1) / parts;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    const int64_t member = omp_get_thread_num();
    void* const scratch = member == 0 ? mine : thread_scratch(bytes);
    for (int64_t i = 0; i < parts; ++i) {
      Share& share = shares[(member + i) % parts];
      for (;;) {
        const int64_t begin = share.next.fetch_add(step, std::memory_order_relaxed);
        if (begin >= share.end) break;
        task(begin, std::min(begin + step, share.end), scratch);
      }
    }
  }
}

/// Deals blocks of rows and groups of panels to threads. No element depends on the dealing. packed_depth: of the summed
/// dimension, what a task holds packed at a time.
template <class Task>
void deal(int64_t rows, int64_t columns, int64_t depth, int64_t packed_depth, bool packs_right, Task task) {
  if (rows == 0 || columns == 0) return;
  const int64_t padded = round_up(packed_depth, kTileDepth), panels = ceil_div(columns, kTilePanel);
  const int64_t threads = rows * columns * depth >= kParallelFrom ? omp_get_max_threads() : 1;
  const int64_t most = std::clamp(kLeftElements / std::max<int64_t>(padded, 1) / 32 * 32, int64_t{32}, kMostRows);
  const int64_t each = std::min(most, round_up(ceil_div(rows, threads), 32));  // rows of a block
  const int64_t blocks = ceil_div(rows, each);
  const int64_t groups = blocks >= threads ? 1 : std::min(panels, ceil_div(threads, blocks));
  const int64_t left = each * padded, right = packs_right ? kTilePanel * padded : 0;
  const auto run = [&](int64_t i, bf16* scratch) {
    const int64_t row = i / groups * each, group = i % groups;
    const int64_t panel = panels * group / groups, end = panels * (group + 1) / groups;
    task(TileTask{row, std::min(each, rows - row), panel, end - panel, scratch, scratch + left});
  };
  run_tasks(threads, blocks * groups, thread_scratch((left + right) * 2), (left + right) * 2,
            [&](int64_t i, int64_t, void* scratch) { run(i, static_cast<bf16*>(scratch)); });
}

template <class Out>
const TileForward<Out>& forward_of(const TileMatmulTable& set) {
  if constexpr (std::is_same_v<Out, float>)
    return set.to_f32;
  else
    return set.to_bf16;
}

}  // namespace

const TileMatmulTable& tile_matmul_of(Isa isa) { return TERN_TABLE_OF(tile_matmul_table, isa); }

bool has_tiles(Isa isa) { return tile_matmul_of(isa).present; }

template <class Out>
void tile_forward(const TileMatmulTable& set, const bf16* x, std::span<const WeightRows<bf16>> w, const bf16* bias,
                  int64_t m, int64_t n, int64_t k, bool add, Out* y) {
  if (m == 0 || n == 0) return;
  const TileForward<Out>& kernels = forward_of<Out>(set);
  const TileProduct<Out> product{w.data(), static_cast<int64_t>(w.size()), bias, m, n, k, add, y};
  int64_t strips = 0;
  for (const WeightRows<bf16>& piece : w) strips += ceil_div(piece.count, kTileStrip);
  const int64_t depth = round_up(k, kTileDepth);
  const int threads = m * n * k >= kParallelFrom ? omp_get_max_threads() : 1;

  if (m <= kThinTokens) {
    // Columns of one tile: pairs of the summed dimension, row of x by row of x.
    const int64_t right = round_up(depth * m, 64), own = kTileStrip * depth;
    auto* const shared = static_cast<bf16*>(thread_scratch((right + own) * 2));
    std::memset(static_cast<void*>(shared), 0, static_cast<size_t>(right) * 2);
    for (int64_t j = 0; j < m; ++j)
      for (int64_t i = 0; i < k; ++i) shared[(i / 2 * m + j) * 2 + i % 2] = x[j * k + i];
    const int64_t step = std::max<int64_t>(1, kThinElements / (kTileStrip * std::max(depth, kTileDepth)));
    return run_shares(threads, strips, step, shared + right, own * 2, [&](int64_t begin, int64_t end, void* scratch) {
      kernels.thin(product, {begin, end, 0, m, shared, scratch});
    });
  }

  const auto pack = [&](int64_t token, int64_t tokens, bf16* to) {
    for (int64_t t = 0; t < tokens; t += kTilePanel)
      set.pack_panel(x + (token + t) * k, std::min(kTilePanel, tokens - t), k, to + t * depth);
  };
  const int64_t most = std::min(round_up(m, kTilePanel), kWideTokens), blocks = ceil_div(m, most);
  const int64_t own = kTileStrip * kWideDepth * 2 + most * kWideStrips * kTileStrip * 4;
  if (blocks >= threads) {  // a block of x is one task, packed by it
    const int64_t right = round_up(most * depth * 2, 64);
    return run_tasks(threads, blocks, thread_scratch(right + own), right + own, [&](int64_t i, int64_t, void* scratch) {
      auto* const packed = static_cast<bf16*>(scratch);
      const int64_t token = i * most, tokens = std::min(most, m - token);
      pack(token, tokens, packed);
      kernels.wide(product, {0, strips, token, tokens, packed, packed + right / 2});
    });
  }
  // Blocks one after the other: their panels are packed together, then their strips are dealt.
  const int64_t right = round_up(most * depth, 32);
  auto* const shared = static_cast<bf16*>(thread_scratch(right * 2 + own));
  for (int64_t token = 0; token < m; token += most) {
    const int64_t tokens = std::min(most, m - token), panels = ceil_div(tokens, kTilePanel);
    run_tasks(threads, panels, shared + right, own, [&](int64_t i, int64_t, void*) {
      const int64_t first = i * kTilePanel;
      pack(token + first, std::min(kTilePanel, tokens - first), shared + first * depth);
    });
    const int64_t groups = std::min(strips, round_up(ceil_div(strips, kWideStrips), threads));
    run_tasks(threads, groups, shared + right, own, [&](int64_t i, int64_t tasks, void* scratch) {
      kernels.wide(product, {strips * i / tasks, strips * (i + 1) / tasks, token, tokens, shared, scratch});
    });
  }
}
template void tile_forward<float>(const TileMatmulTable&, const bf16*, std::span<const WeightRows<bf16>>, const bf16*,
                                  int64_t, int64_t, int64_t, bool, float*);
template void tile_forward<bf16>(const TileMatmulTable&, const bf16*, std::span<const WeightRows<bf16>>, const bf16*,
                                 int64_t, int64_t, int64_t, bool, bf16*);

void tile_nn(const TileMatmulTable& set, const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add,
             bf16* dx) {
  const auto kernel = set.nn;
  deal(m, k, n, n, true, [&](const TileTask& t) { kernel(t, dy, w, n, k, add, dx); });
}

void tile_tn(const TileMatmulTable& set, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) {
  const auto kernel = set.tn;
  deal(n, k, m, std::min(m, kTileSumBlock), true, [&](const TileTask& t) { kernel(t, dy, x, m, n, k, dw); });
}

}  // namespace tern
