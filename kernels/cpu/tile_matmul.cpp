#include "kernels/cpu/tile_matmul.h"

#include <omp.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/thread_scratch.h"
#include "kernels/cpu/tile_matmul_table.h"

namespace tern {
namespace {

constexpr int64_t kLeftElements = 1 << 19;  // of a task's packed rows: 1 MiB, half of a 2 MiB L2
constexpr int64_t kMostRows = 256;
constexpr int64_t kParallelFrom = 1 << 18;  // multiply-adds: below, waking a thread costs more than it gives

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

const TileMatmulTable& table(Isa isa) { return TERN_TABLE_OF(tile_matmul_table, isa); }

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
  const auto scratch = [&] { return static_cast<bf16*>(thread_scratch((left + right) * 2)); };
  const int64_t tasks = blocks * groups;
  if (threads == 1 || tasks == 1) {  // the self-test relies on it: no team to leave behind if an instruction is missing
    bf16* const mine = scratch();
    for (int64_t i = 0; i < tasks; ++i) run(i, mine);
    return;
  }
#pragma omp parallel num_threads(static_cast <int>(threads))
  {
    bf16* const mine = scratch();
#pragma omp for schedule(dynamic, 1)
    for (int64_t i = 0; i < tasks; ++i) run(i, mine);
  }
}

}  // namespace

bool has_tiles(Isa isa) { return table(isa).present; }

int64_t tile_packed_bytes(int64_t n, int64_t k) { return round_up(n, kTilePanel) * round_up(k, kTileDepth) * 2; }

void tile_pack(Isa isa, const bf16* w, int64_t n, int64_t k, bf16* packed) {
  const auto pack = table(isa).pack;
  const int64_t panels = ceil_div(n, kTilePanel);
#pragma omp parallel for schedule(static) if (n * k >= kParallelFrom)
  for (int64_t p = 0; p < panels; ++p) pack(p, 1, w, n, k, packed);
}

template <class Out>
void tile_exact(Isa isa, const bf16* x, const bf16* packed, const bf16* bias, int64_t m, int64_t n, int64_t k, bool add,
                Out* y) {
  TileExact<Out> kernel;
  if constexpr (std::is_same_v<Out, float>)
    kernel = table(isa).exact_f32;
  else
    kernel = table(isa).exact_bf16;
  deal(m, n, k, k, false, [&](const TileTask& t) { kernel(t, x, packed, bias, n, k, add, y); });
}
template void tile_exact<float>(Isa, const bf16*, const bf16*, const bf16*, int64_t, int64_t, int64_t, bool, float*);
template void tile_exact<bf16>(Isa, const bf16*, const bf16*, const bf16*, int64_t, int64_t, int64_t, bool, bf16*);

void tile_nn(Isa isa, const bf16* dy, const bf16* w, int64_t m, int64_t n, int64_t k, bool add, bf16* dx) {
  const auto kernel = table(isa).nn;
  deal(m, k, n, n, true, [&](const TileTask& t) { kernel(t, dy, w, n, k, add, dx); });
}

void tile_tn(Isa isa, const bf16* dy, const bf16* x, int64_t m, int64_t n, int64_t k, float* dw) {
  const auto kernel = table(isa).tn;
  deal(n, k, m, std::min(m, kTileSumBlock), true, [&](const TileTask& t) { kernel(t, dy, x, m, n, k, dw); });
}

}  // namespace tern
