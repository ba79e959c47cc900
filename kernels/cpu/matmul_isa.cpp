// The products of a linear layer for one instruction set. Those with weights that are packed or coded end in tile() (matmul_tiles_impl.h): up to
// kTileRows rows by one panel of kPanel columns; those whose operands lie as they are in strip_times_panel() (block_products_impl.h). Either way
// each element is one chain of multiply-adds over the summed dimension, ascending. The chain is interrupted only to pass through f32 memory
// between blocks, which changes no bit; it does not depend on which tile, block or thread an element falls into. That is the whole of the
// row-invariance argument.

#include "base/rounding.h"
#include "kernels/cpu/block_products_impl.h"
#include "kernels/cpu/coded_panels_impl.h"
#include "kernels/cpu/finish_impl.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/matmul_tiles_impl.h"
#include "kernels/cpu/shares.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int64_t kFewRows = 32;     // of the left operand
constexpr int64_t kPartsAtOnce = 8;  // of a share

/// First prepare(i) for each i < prepared, then task(part) for each part of a product of so many rows. Of many rows a thread takes one part at a
/// time: cores are seldom equally fast, as others want them, too. Of few rows it takes those of its share in order, as memory is read on and a
/// panel asks for the next one, and then what is left of the others' shares.
template <class Prepare, class Task>
void for_parts(int64_t prepared, Prepare prepare, int64_t parts, int64_t rows, bool parallel, Task task) {
  TaskShares shares;
  const bool shared = parallel && rows < kFewRows;
  if (shared) share_tasks(parts, omp_get_max_threads(), shares);
#pragma omp parallel if (parallel)
  {
    if (prepared > 0) {
#pragma omp for schedule(static)
      for (int64_t i = 0; i < prepared; ++i) prepare(i);
    }
    if (!shared) {
#pragma omp for schedule(dynamic) nowait
      for (int64_t part = 0; part < parts; ++part) task(part);
    } else {
      for (;;) {
        const TaskRange range = take_tasks(shares, omp_get_thread_num(), kPartsAtOnce);
        if (range.begin == range.end) break;
        for (int64_t part = range.begin; part < range.end; ++part) task(part);
      }
    }
  }
}

/// x (m, k) as tiles take it: as it is, or widened, to `room` (m, stride) before the first part or, without room, by each part for itself.
template <class T>
struct LeftRows {
  const T* x;
  Wide<T>* room;
  int64_t k, stride;

  LeftRows(const T* from, int64_t columns, float* to)
      : x(from), room(nullptr), k(columns), stride(wide_stride(columns)) {
    if constexpr (kWidens<T>) room = to;
  }
  int64_t prepared(int64_t m) const { return room ? m : 0; }
  void prepare(int64_t row) const {
    if constexpr (kWidens<T>)
      for (int64_t i = 0; i < k; i += kLanes) {
        const T* const from = x + row * k + i;
        store(room + row * stride + i, k - i >= kLanes ? load(from) : load(from, k - i));
      }
  }
  Left<Wide<T>> at(int64_t row, int64_t k0, int64_t rows, int64_t count, int64_t step, Wide<T>* scratch) const {
    if (room) return {room + row * stride + k0, stride, step};
    return left_rows(x + row * k + k0, k, rows, count, step, scratch);
  }
  /// Panels of a part, which share what it widens.
  int64_t together(int64_t panels, int64_t blocks, int64_t most) const {
    return room ? panels_of_part(panels, blocks, most) : panels_together(panels, blocks, most);
  }
};

// --- the products --------------------------------------------------------------------------------------------------

template <class T, class Out>
void exact(const T* x, const T* packed, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y,
           int64_t y_stride, float* wide_room) {
  const int64_t padded = round_up(k, kStep<T>);
  const int64_t panels = ceil_div(n, kPanel), blocks = ceil_div(m, kBlockRows);
  const LeftRows<T> lefts(x, k, wide_room);
  const int64_t together = kWidens<T> ? lefts.together(panels, blocks, kMostTogether) : 1;
  const int64_t groups = ceil_div(panels, together);
  const auto prepare = [&](int64_t row) { lefts.prepare(row); };
  for_parts(lefts.prepared(m), prepare, groups * blocks, m, m * n * k >= kParallelFrom, [&](int64_t part) {
    const int64_t group = part / blocks, block = part % blocks;
    alignas(64) float acc[(kWidens<T> ? kMostTogether : 1) * kBlockRows * kPanel];
    alignas(64) Wide<T> wide[kWidened<T>];
    const int64_t row = block * kBlockRows, rows = smaller(kBlockRows, m - row);
    const int64_t begin = group * together, end = smaller(begin + together, panels);
    clear(acc, (end - begin) * rows * kPanel);
    for (int64_t k0 = 0; k0 < k; k0 += kBlockSum<T>) {
      const int64_t count = smaller(kBlockSum<T>, k - k0);
      const auto left = lefts.at(row, k0, rows, count, kStep<T>, wide);
      const int64_t next = k0 + kBlockSum<T> < k ? kBlockSum<T> * kPanel : together * kPanel * padded - k0 * kPanel;
      for (int64_t p = begin; p < end; ++p) {
        const T* const panel = packed + p * kPanel * padded + k0 * kPanel;
        tiles(left, rows, panel, kWidens<T> ? ceil_div(count, kStep<T>) * kStep<T> : count,
              acc + (p - begin) * rows * kPanel, panel + next);
      }
    }
    for (int64_t p = begin; p < end; ++p) {
      const int64_t column = p * kPanel;
      finish(acc + (p - begin) * rows * kPanel, kPanel, rows, smaller(kPanel, n - column),
             bias ? bias + column : nullptr, add, y + row * y_stride + column, y_stride);
    }
  });
}

// --- rows that are coded -------------------------------------------------------------------------------------------

constexpr int64_t kCodedRows = 384;  // rows of x that share what was decoded: their sums of a panel are 24 to 96 KiB
constexpr int64_t kCodedTogether = kPanel < 64 ? 4 : 2;  // panels that share what is widened of x

template <class T>
void decode_row(const CodedRows& piece, int64_t row, int64_t k, T* out) {
  const CodedRow from = coded_row(piece, row, k);
  for (int64_t k0 = 0; k0 < k; k0 += kDecoded) decode<T>(from, k0, smaller(kDecoded, k - k0), out + k0);
}

/// `exact`, panels being decoded and packed block by block on the way: the same chains over the same numbers. What is decoded serves all
/// rows of x at hand, and what is widened of them all panels of a group.
template <class T, class Out>
void coded(const T* x, const CodedRows* pieces, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y,
           int64_t y_stride, float* wide_room) {
  static_assert(!kWidens<T> || kDecoded <= kBlockSum<T>);
  const int64_t panels = ceil_div(n, kPanel), blocks = ceil_div(m, kCodedRows);
  const LeftRows<T> lefts(x, k, wide_room);
  const int64_t together = m < kFewRows ? 1 : lefts.together(panels, blocks, kCodedTogether);
  const int64_t groups = ceil_div(panels, together);
  const auto prepare = [&](int64_t row) { lefts.prepare(row); };
  for_parts(lefts.prepared(m), prepare, groups * blocks, m, m * n * k >= kParallelFrom, [&](int64_t part) {
    const int64_t group = part / blocks, block = part % blocks;
    alignas(64) float acc[kCodedTogether * kCodedRows * kPanel];
    alignas(64) Wide<T> decoded[kCodedTogether * kDecoded * kPanel];
    alignas(64) Wide<T> wide[kWidened<T>];
    CodedPanel w[kCodedTogether];
    const int64_t row = block * kCodedRows, rows = smaller(kCodedRows, m - row);
    const int64_t first = group * together, here = smaller(together, panels - first);
    for (int64_t p = 0; p < here; ++p) w[p].place(pieces, (first + p) * kPanel, n, k);
    clear(acc, here * rows * kPanel);
    for (int64_t k0 = 0; k0 < k; k0 += kDecoded) {
      const int64_t count = smaller(kDecoded, k - k0);
      for (int64_t r = 0; r < rows; r += kBlockRows) {
        const int64_t some = smaller(kBlockRows, rows - r);
        const auto left = lefts.at(row + r, k0, some, count, kStep<Wide<T>>, wide);
        for (int64_t p = 0; p < here; ++p) {
          Wide<T>* const panel = decoded + p * kDecoded * kPanel;
          if (r == 0) pack<T>(w[p], k0, count, k, panel);
          tiles(left, some, panel, count, acc + (p * rows + r) * kPanel);
        }
      }
    }
    for (int64_t p = 0; p < here; ++p) {
      const int64_t column = (first + p) * kPanel;
      finish(acc + p * rows * kPanel, kPanel, rows, w[p].count, bias ? bias + column : nullptr, add,
             y + row * y_stride + column, y_stride);
    }
  });
}

constexpr int64_t kCodedSum = 128;  // rows of w decoded at once: with kDecoded of their columns 128 KiB in f32, for L2
constexpr int64_t kCodedNnRows = 192;  // rows of dy that share them: their sums are 192 KiB

/// `nn`, stripes of kDecoded columns being decoded on the way, so that every block is decoded once for the panels in it:
/// the same chains over the same numbers.
template <class T>
void coded_nn(const T* dy, const CodedRows* pieces, int64_t m, int64_t n, int64_t k, bool add, T* dx) {
  const int64_t stripes = ceil_div(k, kDecoded), blocks = ceil_div(m, kCodedNnRows);
  constexpr int64_t kAt = kStep<Wide<T>>;
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t stripe = 0; stripe < stripes; ++stripe)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float acc[kCodedNnRows * kDecoded];
      alignas(64) Wide<T> plain[kCodedSum * kDecoded];
      alignas(64) Wide<T> panel[kCodedSum * kPanel];
      alignas(64) Wide<T> wide[kWidened<T>];
      CodedRow rows_here[kCodedSum];
      const int64_t row = block * kCodedNnRows, rows = smaller(kCodedNnRows, m - row);
      const int64_t begin = stripe * kDecoded, width = smaller(kDecoded, k - begin);
      clear(acc, rows * ceil_div(width, kPanel) * kPanel);
      for (int64_t n0 = 0; n0 < n; n0 += kCodedSum) {
        const int64_t count = smaller(kCodedSum, n - n0);
        rows_of_panel(pieces, n0, count, k, rows_here);
        for (int64_t i = 0; i < count; ++i) decode<T>(rows_here[i], begin, width, plain + i * kDecoded);
        for (int64_t r = 0; r < rows; r += kBlockRows) {
          const int64_t some = smaller(kBlockRows, rows - r);
          const auto left = left_rows(dy + (row + r) * n + n0, n, some, count, kAt, wide);
          for (int64_t c = 0; c < width; c += kPanel) {
            pack_rows(plain + c, kDecoded, count, smaller(kPanel, width - c), kPanel, panel);
            tiles(left, some, panel, count, acc + c * rows + r * kPanel);
          }
        }
      }
      for (int64_t c = 0; c < width; c += kPanel)
        finish<T>(acc + c * rows, kPanel, rows, smaller(kPanel, width - c), nullptr, add, dx + row * k + begin + c, k);
    }
}

// --- products of training: neither operand is packed beforehand ------------------------------------------------------

template <class T, class Out>
void nt(const T* x, const T* w, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y) {
  multiply_blocks<true, true>(BlockProduct<T, Out>{{x, k}, {w, k}, m, n, k, bias, add, y, n});
}
template <class T>
void nn(const T* dy, const T* w, int64_t m, int64_t n, int64_t k, bool add, T* dx) {
  multiply_blocks<true, false>(BlockProduct<T, T>{{dy, n}, {w, k}, m, k, n, nullptr, add, dx, k});
}
template <class T>
void tn(const T* dy, const T* x, int64_t m, int64_t n, int64_t k, float* dw) {
  multiply_blocks<false, false>(BlockProduct<T, float>{{dy, n}, {x, k}, n, k, m, nullptr, true, dw, k});
}
/// a·a of a symmetric a (n, n), the blocks on the diagonal and below it.
void square_lower(const float* a, int64_t n, float* y) {
  multiply_blocks<true, false>(BlockProduct<float, float>{{a, n}, {a, n}, n, n, n, nullptr, false, y, n, true});
}
/// xᵀ·x added to a (k, k), the blocks on the diagonal and below it.
void gram_lower(const float* x, int64_t m, int64_t k, float* a) {
  multiply_blocks<false, false>(BlockProduct<float, float>{{x, k}, {x, k}, k, k, m, nullptr, true, a, k, true});
}

}  // namespace

const MatmulTable matmul_table = {
    .panel = kPanel,
    .widens_bf16 = kWidens<bf16>,
    .pack_f32 = pack<float>,
    .pack_bf16 = pack<bf16>,
    .exact_f32 = exact<float, float>,
    .exact_bf16 = exact<bf16, bf16>,
    .exact_bf16_to_f32 = exact<bf16, float>,
    .coded_f32 = coded<float, float>,
    .coded_bf16 = coded<bf16, bf16>,
    .coded_bf16_to_f32 = coded<bf16, float>,
    .coded_nn_f32 = coded_nn<float>,
    .coded_nn_bf16 = coded_nn<bf16>,
    .coded_row_f32 = decode_row<float>,
    .coded_row_bf16 = decode_row<bf16>,
    .nt_f32 = nt<float, float>,
    .nt_bf16 = nt<bf16, bf16>,
    .nt_bf16_to_f32 = nt<bf16, float>,
    .nn_f32 = nn<float>,
    .nn_bf16 = nn<bf16>,
    .tn_f32 = tn<float>,
    .tn_bf16 = tn<bf16>,
    .square_lower = square_lower,
    .gram_lower = gram_lower,
};

}  // namespace tern::TERN_ISA_NAMESPACE
