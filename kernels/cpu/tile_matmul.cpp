#include "kernels/cpu/tile_matmul.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "base/region_errors.h"
#include "base/rounding.h"
#include "kernels/cpu/shares.h"
#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern {
namespace {

constexpr int64_t kLeftElements = 1 << 19;  // of a task's packed rows: 1 MiB, half of a 2 MiB L2
constexpr int64_t kMostRows = 256;
constexpr int64_t kThinElements = 1 << 20;  // of a weight, taken at a time: at most 2 MiB
constexpr int64_t kParallelFrom = 1 << 18;  // multiply-adds: below, waking a thread costs more than it gives

/// Of the calling thread of a team: `mine` is the one's that started it. Null if there is no memory, which `errors`
/// keeps.
void* scratch_of_member(void* mine, int64_t bytes, RegionErrors& errors) {
  if (omp_get_thread_num() == 0) return mine;
  void* scratch = nullptr;
  errors.guard([&] { scratch = thread_scratch(bytes); });
  return scratch;
}

/// task(i, scratch) for each i, on whichever thread is free. The calling thread's scratch is `mine`, of `bytes`,
/// as it may hold more behind it that all tasks read.
template <class Task>
void run_tasks(int64_t threads, int64_t tasks, void* mine, int64_t bytes, Task task) {
  if (threads == 1 || tasks == 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, mine);
    return;
  }
  RegionErrors errors;
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    void* const scratch = scratch_of_member(mine, bytes, errors);
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; ++i)
      if (scratch) task(i, scratch);
  }
  errors.rethrow();
}

/// First prepare(i) for each i < prepared; then task(begin, end, scratch) on ranges of at most `step` that cover [0, count), dealt by shares.
/// Scratch as in run_tasks.
template <class Prepare, class Task>
void run_shares(int64_t threads, int64_t prepared, Prepare prepare, int64_t count, int64_t step, void* mine,
                int64_t bytes, Task task) {
  if (threads == 1 || count <= 1) {
    for (int64_t i = 0; i < prepared; ++i) prepare(i);
    return task(int64_t{0}, count, mine);
  }
  TaskShares shares;
  share_tasks(count, threads, shares);
  RegionErrors errors;
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    void* const scratch = scratch_of_member(mine, bytes, errors);
    if (prepared > 0) {
#pragma omp for schedule(dynamic, 1)
      for (int64_t i = 0; i < prepared; ++i) prepare(i);
    }
    for (TaskRange range; scratch; task(range.begin, range.end, scratch)) {
      range = take_tasks(shares, omp_get_thread_num(), step);
      if (range.begin == range.end) break;
    }
  }
  errors.rethrow();
}

int64_t num_threads(int64_t multiplications) { return multiplications >= kParallelFrom ? omp_get_max_threads() : 1; }

/// Rows that a task of a gradient takes: of its left factor, packed with a depth of `padded`.
int64_t rows_of_task(int64_t rows, int64_t padded, int64_t threads) {
  const int64_t most = std::clamp(kLeftElements / std::max<int64_t>(padded, 1) / 32 * 32, int64_t{32}, kMostRows);
  return std::min(most, round_up(ceil_div(rows, threads), 32));
}

/// Scratch of a gradient of up to so many rows. panels: that a task packs at once; if more than one, it holds their sums in f32, too.
/// The caller's is what it takes alone, as it does where the product is small.
ThreadBytes gradient_scratch(int64_t rows, int64_t packed_depth, int64_t panels) {
  const int64_t padded = round_up(packed_depth, kTileDepth);
  const auto bytes = [&](int64_t threads) {
    const int64_t each = rows_of_task(rows, padded, threads);
    return (each + panels * kTilePanel) * padded * 2 + (panels > 1 ? each * panels * kTilePanel * 4 : 0);
  };
  return {bytes(1), bytes(omp_get_max_threads())};
}

/// Deals blocks of rows and groups of panels to threads. No element depends on the dealing. packed_depth: of the summed
/// dimension, what a task holds packed at a time. packed_panels: panels of the right factor that it packs at once.
template <class Task>
void deal(int64_t rows, int64_t columns, int64_t depth, int64_t packed_depth, int64_t packed_panels, Task task) {
  if (rows == 0 || columns == 0) return;
  const int64_t padded = round_up(packed_depth, kTileDepth), panels = ceil_div(columns, kTilePanel);
  const int64_t threads = num_threads(rows * columns * depth);
  const int64_t each = rows_of_task(rows, padded, threads), blocks = ceil_div(rows, each);
  const int64_t groups = blocks >= threads ? 1 : std::min(panels, ceil_div(threads, blocks));
  const int64_t left = each * padded;
  const ThreadBytes bytes = gradient_scratch(rows, packed_depth, packed_panels);
  const auto run = [&](int64_t i, bf16* scratch) {
    const int64_t row = i / groups * each, group = i % groups;
    const int64_t panel = panels * group / groups, end = panels * (group + 1) / groups;
    task(TileTask{row, std::min(each, rows - row), panel, end - panel, scratch, scratch + left});
  };
  run_tasks(threads, blocks * groups, thread_scratch(bytes.caller), bytes.worker,
            [&](int64_t i, void* scratch) { run(i, static_cast<bf16*>(scratch)); });
}

/// How `wide` cuts m rows of x, and the bytes of its pieces.
struct WideSizes {
  int64_t rows;  // of a block
  int64_t blocks;
  int64_t packed;  // a block of x
  int64_t own;     // a task's strips and sums
};
WideSizes wide_sizes(int64_t m, int64_t k) {
  const int64_t rows = std::min(round_up(m, kTilePanel), kWideTokens);
  return {rows, ceil_div(m, rows), round_up(rows * round_up(k, kTileDepth) * 2, 64),
          kTileStrip * kWideDepth * 2 + rows * kWideStrips * kTileStrip * 4};
}

/// The same of `thin`.
struct ThinSizes {
  int64_t shared, own;
};
ThinSizes thin_sizes(int64_t m, int64_t k) {
  const int64_t depth = round_up(k, kTileDepth);
  return {round_up(depth * m, 64) * 2, kTileRows16 * depth * 2};
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

ThreadBytes tile_forward_scratch(int64_t m, int64_t n, int64_t k) {
  if (m == 0 || n == 0) return {};
  const ThinSizes thin = thin_sizes(std::min(m, kThinTokens), k);
  const ThreadBytes bytes{thin.shared + thin.own, thin.own};
  if (m <= kThinTokens) return bytes;
  const WideSizes wide = wide_sizes(m, k);
  const int64_t whole = wide.packed + wide.own;  // of a task that packs its block itself
  return most(bytes, {whole, wide.blocks >= omp_get_max_threads() ? whole : wide.own});
}

// Panels that a task of `nn` packs at once.
static int64_t nn_panels(int64_t n) { return n > kTileNnDepth ? kTileNnPanels : 1; }

ThreadBytes tile_nn_scratch(int64_t m, int64_t n, int64_t k) {
  return m == 0 || k == 0 ? ThreadBytes{} : gradient_scratch(m, std::min(n, kTileNnDepth), nn_panels(n));
}

ThreadBytes tile_tn_scratch(int64_t m, int64_t n, int64_t k) {
  return n == 0 || k == 0 ? ThreadBytes{} : gradient_scratch(n, std::min(m, kTileSumBlock), 1);
}

template <class Out>
void tile_forward(const TileMatmulTable& set, const bf16* x, std::span<const WeightRows<bf16>> w, const bf16* bias,
                  int64_t m, int64_t n, int64_t k, bool add, Out* y, int64_t y_stride) {
  if (m == 0 || n == 0) return;
  const TileForward<Out>& kernels = forward_of<Out>(set);
  const TileProduct<Out> product{w.data(), static_cast<int64_t>(w.size()), bias, m, n, k, add, y, y_stride};
  const auto strips_of = [&](int64_t height) {
    int64_t strips = 0;
    for (const WeightRows<bf16>& piece : w) strips += ceil_div(piece.count, height);
    return strips;
  };
  const int64_t depth = round_up(k, kTileDepth), threads = num_threads(m * n * k);
  const ThreadBytes bytes = tile_forward_scratch(m, n, k);
  auto* const mine = static_cast<std::byte*>(thread_scratch(bytes.caller));
  auto* const shared = reinterpret_cast<bf16*>(mine);

  if (m <= kThinTokens) {
    const ThinSizes sizes = thin_sizes(m, k);
    set.pack_thin(x, m, k, shared);
    const int64_t step = std::max<int64_t>(1, kThinElements / (kTileRows16 * std::max(depth, kTileDepth)));
    return run_shares(
        threads, 0, [](int64_t) {}, strips_of(kTileRows16), step, mine + sizes.shared, bytes.worker,
        [&](int64_t begin, int64_t end, void* scratch) {
          kernels.thin(product, {begin, end, 0, m, shared, scratch});
        });
  }

  const auto pack = [&](int64_t token, int64_t tokens, bf16* to) {
    for (int64_t t = 0; t < tokens; t += kTilePanel)
      set.pack_panel(x + (token + t) * k, std::min(kTilePanel, tokens - t), k, to + t * depth);
  };
  const WideSizes sizes = wide_sizes(m, k);
  const int64_t strips = strips_of(kTileStrip);
  if (sizes.blocks >= threads)  // a block of x is one task, packed by it
    return run_tasks(threads, sizes.blocks, mine, bytes.worker, [&](int64_t i, void* scratch) {
      auto* const packed = static_cast<bf16*>(scratch);
      const int64_t token = i * sizes.rows, tokens = std::min(sizes.rows, m - token);
      pack(token, tokens, packed);
      kernels.wide(product, {0, strips, token, tokens, packed, packed + sizes.packed / 2});
    });
  // Blocks one after the other: their panels are packed together, then their strips are dealt.
  for (int64_t token = 0; token < m; token += sizes.rows) {
    const int64_t tokens = std::min(sizes.rows, m - token), panels = ceil_div(tokens, kTilePanel);
    const auto pack_one = [&](int64_t i) {
      const int64_t first = i * kTilePanel;
      pack(token + first, std::min(kTilePanel, tokens - first), shared + first * depth);
    };
    run_shares(threads, panels, pack_one, strips, kWideStrips, mine + sizes.packed, bytes.worker,
               [&](int64_t begin, int64_t end, void* scratch) {
                 kernels.wide(product, {begin, end, token, tokens, shared, scratch});
               });
  }
}
template void tile_forward<float>(const TileMatmulTable&, const bf16*, std::span<const WeightRows<bf16>>, const bf16*,
                                  int64_t, int64_t, int64_t, bool, float*, int64_t);
template void tile_forward<bf16>(const TileMatmulTable&, const bf16*, std::span<const WeightRows<bf16>>, const bf16*,
                                 int64_t, int64_t, int64_t, bool, bf16*, int64_t);

void tile_nn(const TileMatmulTable& set, const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add,
             bf16* dx) {
  const auto kernel = set.nn;
  deal(m, k, n, std::min(n, kTileNnDepth), nn_panels(n), [&](const TileTask& t) { kernel(t, dy, w, n, k, add, dx); });
}

void tile_tn(const TileMatmulTable& set, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) {
  const auto kernel = set.tn;
  deal(n, k, m, std::min(m, kTileSumBlock), 1, [&](const TileTask& t) { kernel(t, dy, x, m, n, k, dw); });
}

}  // namespace tern
