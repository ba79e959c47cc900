#pragma once
// Products of which neither operand lies as tiles want it, for *_isa.cpp files: both are packed block by block. Each element is one chain of
// multiply-adds over the summed dimension, ascending, as in matmul_tiles_impl.h: the same bits.
//
// Rows of the left operand go in strips, columns of the right one in panels of two vectors. Several panels of a block of the summed dimension
// stay in L2 while the rows pass by; a strip stays in L1 while the panels pass by; sums stay in registers for the whole block.
// Literature: Goto & van de Geijn 2008; Van Zee & van de Geijn 2015, "BLIS" (both recalled).

#include "base/rounding.h"
#include "kernels/cpu/finish_impl.h"
#include "kernels/cpu/matmul_tiles_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kStripRows = 12;  // 24 sums, 2 vectors of columns, 1 broadcast: 27 of 32 registers
#elif defined(__FMA__)
constexpr int kStripRows = 6;  // 12 sums, 2 vectors of columns, 1 broadcast: 15 of 16 registers
#else
constexpr int kStripRows = 4;
#endif
constexpr int64_t kStripColumns = 2 * kLanes;  // of a panel
// A step of the summed dimension is four bytes of an operand: an f32, or a pair of bf16 where an instruction multiplies pairs.
constexpr int64_t kLineSteps = 16;
// Bytes with AVX-512; narrower vectors take less. All lie on the stack of a task's thread: 670 KiB at most.
constexpr int64_t kBlockSteps = 384;                  // of a strip 18 KiB, of a panel 48 KiB
constexpr int64_t kBlockColumns = 9 * kStripColumns;  // side by side: 432 KiB
constexpr int64_t kWaitingRows = 144;                 // of a task whose sums wait between blocks: 162 KiB
constexpr int64_t kRowsOfLower = 8 * kStripRows;
constexpr int64_t kMostRows = 768;  // of a task whose sums need not wait

static_assert(kWaitingRows % kStripRows == 0 && kMostRows % kStripRows == 0 && kRowsOfLower <= kWaitingRows);

/// One operand. Element (i, s), s along the summed dimension, is data[i·stride + s] or, if that dimension lies across the rows of memory,
/// data[s·stride + i].
template <class T>
struct Operand {
  const T* data;
  int64_t stride;
};
/// y (rows, columns; row stride y_stride) = left·right + bias; if `add`, y += this. sum: length of the summed dimension. lower: what lies
/// wholly above the diagonal may be left alone.
template <class T, class Out>
struct BlockProduct {
  Operand<T> left, right;
  int64_t rows, columns, sum;
  const T* bias;
  bool add;
  Out* y;
  int64_t y_stride;
  bool lower = false;
};

template <class W>
struct StepOf {
  using Type = F32Step;
};
#if defined(__AVX512BF16__)
template <>
struct StepOf<bf16> {
  using Type = Bf16Step;
};
#endif

/// to (R, kStripColumns) = from (null: zeros) + a strip times V vectors of a panel. kAlong: how the strip was packed. Not inlined: in a large
/// function compilers keep the sums in memory.
template <int R, int V, bool kAlong, class W>
__attribute__((noinline)) void strip_times_panel(const W* a, const W* b, int64_t steps, const float* from, float* to) {
  using Step = typename StepOf<W>::Type;
  constexpr int64_t kAt = kStep<W>, kRow = (kAlong ? kLineSteps : 1) * kAt, kNext = (kAlong ? 1 : kStripRows) * kAt;
  Vec c[R][V];
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) c[r][v] = from ? load(from + r * kStripColumns + v * kLanes) : splat(0.0f);
  for (int64_t left = steps; left > 0; left -= kLineSteps, a += kLineSteps * kStripRows * kAt) {
    const W* at = a;
    for (int64_t s = smaller(left, kLineSteps); s > 0; --s, at += kNext, b += kStripColumns * kAt) {
      Step panel[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) panel[v] = Step::columns(b + v * kLanes * kAt);
#pragma GCC unroll 12
      for (int r = 0; r < R; ++r) {
        const Step x = Step::broadcast(at + r * kRow);
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) c[r][v] = Step::multiply_add(x, panel[v], c[r][v]);
      }
    }
  }
#pragma GCC unroll 12
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) store(to + r * kStripColumns + v * kLanes, c[r][v]);
}
template <int R, bool kAlong, class W>
inline void strip_times_panel(const W* a, const W* b, int64_t columns, int64_t steps, const float* from, float* to) {
  if (columns > kLanes)
    strip_times_panel<R, 2, kAlong>(a, b, steps, from, to);
  else
    strip_times_panel<R, 1, kAlong>(a, b, steps, from, to);
}
/// Rows behind the last hold anything; what is made of them is not used.
template <bool kAlong, class W>
inline void strip_times_panel(const W* a, int64_t rows, const W* b, int64_t columns, int64_t steps, const float* from,
                              float* to) {
  if constexpr (kStripRows > 4) {
    constexpr int kThird = kStripRows / 3;
    if (rows <= kThird) return strip_times_panel<kThird, kAlong>(a, b, columns, steps, from, to);
    if (rows <= 2 * kThird) return strip_times_panel<2 * kThird, kAlong>(a, b, columns, steps, from, to);
  }
  strip_times_panel<kStripRows, kAlong>(a, b, columns, steps, from, to);
}

/// The first n elements of a line of kLineSteps steps at p, then zeros.
template <class T>
inline void copy_line(const T* p, int64_t n, float* to) {
  for (int64_t l = 0; l < kLineSteps; l += kLanes)
    store(to + l, n - l >= kLanes ? load(p + l) : load(p + l, n - l > 0 ? n - l : 0));
}
/// The first n elements of the row at p (of pairs: of `count` rows, one or two) as a step, and anything behind them up to a whole vector.
/// readable: elements of a row from p on, at least n.
template <class T>
inline void copy_across(const T* p, int64_t, int64_t, int64_t n, int64_t readable, float* to) {
  for (int64_t l = 0; l < n; l += kLanes)
    store(to + l, readable - l >= kLanes ? load(p + l) : load(p + l, smaller(n - l, kLanes)));
}
#if defined(__AVX512BF16__)
inline void copy_line(const bf16* p, int64_t n, bf16* to) {
  const __mmask32 some = n >= 32 ? ~__mmask32{0} : (__mmask32{1} << n) - 1;
  _mm512_storeu_si512(to, _mm512_maskz_loadu_epi16(some, p));
}
inline void copy_across(const bf16* p, int64_t stride, int64_t count, int64_t n, int64_t, bf16* to) {
  pack_rows(p, stride, count, n, round_up(n, kLanes), to);
}
#endif

/// Rows of the left operand that are packed at a time. Across memory they are whole lines of the cache.
template <bool kAlong>
constexpr int64_t kRowsAtOnce = kAlong ? kStripRows : 48;
static_assert(kRowsAtOnce<false> % kStripRows == 0);

/// `count` elements of the summed dimension, from `from` on, of rows [row, row + rows), as strips of `size` elements. along: a strip has for each
/// kLineSteps steps kStripRows lines; else for each step kStripRows rows.
template <bool kAlong, class T, class W>
inline void pack_strips(const Operand<T>& x, int64_t row, int64_t rows, int64_t from, int64_t count, int64_t size,
                        W* strips) {
  constexpr int64_t kAt = kStep<W>;
  if constexpr (kAlong) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* const line = x.data + (row + r) * x.stride + from;
      for (int64_t i = 0; i < count; i += kLineSteps * kAt)
        copy_line(line + i, smaller(count - i, kLineSteps * kAt), strips + (i * kStripRows) + r * kLineSteps * kAt);
    }
  } else {
    const T* line = x.data + from * x.stride + row;
    for (int64_t i = 0; i < count; i += kAt, line += kAt * x.stride) {
      W* to = strips + i * kStripRows;
      for (int64_t r = 0; r < rows; r += kStripRows, to += size)
        copy_across(line + r, x.stride, smaller(count - i, kAt), smaller(rows - r, kStripRows), x.stride - row - r, to);
    }
  }
}

/// `count` elements of the summed dimension, from `from` on, of columns [column, column + columns), as panels of `size` elements: for each step
/// kStripColumns columns.
template <bool kAlong, class T, class W>
inline void pack_panels(const Operand<T>& x, int64_t column, int64_t columns, int64_t from, int64_t count, int64_t size,
                        W* panels) {
  constexpr int64_t kAt = kStep<W>;
  if constexpr (kAlong) {
    for (int64_t c = 0; c < columns; c += kLanes) {
      const uint8_t* lines[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        lines[i] = reinterpret_cast<const uint8_t*>(x.data + (column + c + i) * x.stride + from);
      pack_lanes<T, W, kStripColumns>(lines, smaller(columns - c, kLanes), count, c % kStripColumns,
                                      panels + c / kStripColumns * size);
    }
  } else {
    const T* line = x.data + from * x.stride + column;
    for (int64_t i = 0; i < count; i += kAt, line += kAt * x.stride)
      for (int64_t c = 0; c < columns; c += kStripColumns)
        copy_across(line + c, x.stride, smaller(count - i, kAt), smaller(columns - c, kStripColumns),
                    x.stride - column - c, panels + c / kStripColumns * size + i * kStripColumns);
  }
}

/// Rows [row, row + rows) of the columns [column, column + columns): of these at most kBlockColumns, and at most kWaitingRows rows
/// where the sum takes several blocks.
template <bool kLeftAlong, bool kRightAlong, class T, class Out>
void multiply_block(const BlockProduct<T, Out>& p, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  using W = Wide<T>;
  constexpr int64_t kAt = kStep<W>, kMostSum = kBlockSteps * kAt;
  constexpr int64_t kAtOnce = kRowsAtOnce<kLeftAlong>, kSpare = kLanes * kAt;  // a step may be stored as whole vectors
  constexpr int64_t kGap =
      kLineSteps * kAt;  // behind a panel, or panels of some lengths would lie in the same sets of a cache
  alignas(64) W panels[kBlockColumns * kMostSum + kBlockColumns / kStripColumns * kGap];
  alignas(64) float sums[kBlockColumns * kWaitingRows];
  alignas(64) W strips[kAtOnce * kMostSum + kAtOnce / kStripRows * kSpare];
  const int64_t blocks = ceil_div(p.sum, kMostSum), width = round_up(columns, kStripColumns);
  const int64_t most = blocks == 0 ? kMostSum : round_up(ceil_div(p.sum, blocks), kLineSteps * kAt);
  for (int64_t from = 0; from == 0 || from < p.sum; from += most) {  // once for an empty sum, too
    const int64_t count = smaller(most, p.sum - from), steps = ceil_div(count, kAt);
    const int64_t panel_size = kStripColumns * steps * kAt + kGap;
    const int64_t strip_size = kStripRows * round_up(steps, kLineSteps) * kAt + kSpare;
    pack_panels<kRightAlong>(p.right, column, columns, from, count, panel_size, panels);
    for (int64_t r = 0; r < rows; r += kStripRows) {
      if (r % kAtOnce == 0)
        pack_strips<kLeftAlong>(p.left, row + r, smaller(kAtOnce, rows - r), from, count, strip_size, strips);
      const W* const strip = strips + r % kAtOnce / kStripRows * strip_size;
      const int64_t some = smaller(kStripRows, rows - r);
      float* const waiting = sums + (blocks > 1 ? r * width : 0);
      for (int64_t c = 0; c < columns; c += kStripColumns) {
        const int64_t here = smaller(kStripColumns, columns - c), at = column + c;
        float* const to = waiting + c * kStripRows;
        strip_times_panel<kLeftAlong>(strip, some, panels + c / kStripColumns * panel_size, here, steps,
                                      from > 0 ? to : nullptr, to);
        if (from + count == p.sum)
          finish(to, kStripColumns, some, here, p.bias ? p.bias + at : nullptr, p.add,
                 p.y + (row + r) * p.y_stride + at, p.y_stride);
      }
    }
  }
}

/// How a product is cut into tasks: blocks of rows by groups of panels.
struct BlockCut {
  int64_t blocks, groups;
};
/// The cut with which the busiest thread ends earliest; no block has more than `most` rows. A task packs its columns and its rows, which takes as long as
/// to multiply them with kPacking rows, or columns, more. An eighth of a task is added for the time that other programs take on the cores.
inline BlockCut cut_blocks(int64_t rows, int64_t panels, int64_t most, int64_t threads) {
  constexpr int64_t kPacking = 20, kTasksOfThread = 8, kPanels = kBlockColumns / kStripColumns;
  const BlockCut least = {ceil_div(rows, most), ceil_div(panels, kPanels)};
  if (threads == 1 || least.blocks * least.groups >= kTasksOfThread * threads) return least;
  BlockCut best = least;
  int64_t shortest = INT64_MAX;
  const int64_t strips = ceil_div(rows, kStripRows);
  for (int64_t groups = least.groups; groups <= smaller(panels, least.groups + threads); ++groups)
    for (int64_t blocks = least.blocks; blocks <= strips; ++blocks) {
      const int64_t tall = ceil_div(strips, blocks), tasks = blocks * groups;
      if (blocks > least.blocks && tall == ceil_div(strips, blocks - 1)) continue;  // as tall, and more tasks
      const int64_t height = tall * kStripRows, width = ceil_div(panels, groups) * kStripColumns;
      const int64_t time = (8 * ceil_div(tasks, threads) + 1) * (height * width + kPacking * (height + width));
      if (time < shortest) best = {blocks, groups}, shortest = time;
      if (tasks >= kTasksOfThread * threads) break;
    }
  return best;
}

/// The whole product, its blocks on whichever thread is free.
template <bool kLeftAlong, bool kRightAlong, class T, class Out>
void multiply_blocks(const BlockProduct<T, Out>& p) {
  if (p.rows == 0 || p.columns == 0) return;
  const int64_t threads = p.rows * p.columns * p.sum >= kParallelFrom ? omp_get_max_threads() : 1;
  int64_t most = p.sum > kBlockSteps * kStep<Wide<T>> ? kWaitingRows : kMostRows;
  if (p.lower) most = kRowsOfLower;  // so that not much above the diagonal is multiplied
  const int64_t panels = ceil_div(p.columns, kStripColumns);
  const BlockCut cut = cut_blocks(p.rows, panels, most, threads);
  const int64_t rows = round_up(ceil_div(p.rows, cut.blocks), kStripRows), blocks = ceil_div(p.rows, rows);
#pragma omp parallel for collapse(2) schedule(dynamic) if (threads > 1)
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t group = 0; group < cut.groups; ++group) {
      const int64_t row = block * rows, some = smaller(rows, p.rows - row);
      const int64_t begin = panels * group / cut.groups * kStripColumns,
                    end = smaller(panels * (group + 1) / cut.groups * kStripColumns, p.columns);
      if (!p.lower || begin < row + some) multiply_block<kLeftAlong, kRightAlong>(p, row, some, begin, end - begin);
    }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
