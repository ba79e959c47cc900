// The three products of a linear layer for one instruction set. All of them end in tile(): up to kTileRows rows by one
// panel of kPanel columns, each element one chain of multiply-adds over the summed dimension, ascending. The chain is
// interrupted only to pass through f32 memory between blocks, which changes no bit; it does not depend on which tile,
// block or thread an element falls into. That is the whole of the row-invariance argument.

#include <omp.h>

#include <type_traits>

#include "base/rounding.h"
#include "kernels/cpu/coded_rows_impl.h"
#include "kernels/cpu/finish_impl.h"
#include "kernels/cpu/matmul_table.h"
#include "kernels/cpu/small_gemm_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kVecs = 4, kTileRows = 6;  // 24 accumulators, 4 columns vectors, 1 broadcast: 29 of 32 registers
#elif defined(__FMA__)
// 12 accumulators, 2 columns vectors, 1 broadcast, 1 mask of bf16: 16 registers
constexpr int kVecs = 2, kTileRows = 6;
#else
constexpr int kVecs = 2, kTileRows = 4;  // 8 accumulators of SSE2's 16 registers; the products need one each
#endif
constexpr int kPanel = kVecs * kLanes;
constexpr int64_t kBlockRows = 96;          // accumulators of a block: 96 × 64 × 4 = 24 KiB, with the panel in L2
constexpr int64_t kParallelFrom = 1 << 16;  // multiply-adds: below, starting threads costs more than it gives

/// Elements of the summed dimension held at once: 32 KiB of a panel, so that it stays in L1 while the rows pass by.
template <class T>
constexpr int64_t kBlockSum = 512 / static_cast<int64_t>(sizeof(T));
/// Elements per step of the summed dimension: bf16 goes in pairs, lower half first, as vdpbf16ps wants them.
template <class T>
constexpr int64_t kStep = 4 / static_cast<int64_t>(sizeof(T));

/// What products compute with: bf16 where an instruction multiplies it, else f32.
#if defined(__AVX512BF16__)
template <class T>
using Wide = T;
#else
template <class T>
using Wide = float;
#endif
template <class T>
constexpr bool kWidens = !std::is_same_v<T, Wide<T>>;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// --- one step of a chain -------------------------------------------------------------------------------------------

struct F32Step {
  Vec value;
  static F32Step columns(const float* p) { return {load(p)}; }
  static F32Step broadcast(const float* p) { return {splat(*p)}; }
  static F32Step broadcast_last(const float* p) { return broadcast(p); }
  static Vec multiply_add(F32Step a, F32Step b, Vec c) { return fma(a.value, b.value, c); }
};

inline VecUint load_pairs(const bf16* p) {
  VecUint v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline uint32_t load_pair(const bf16* p) {
  uint32_t u;
  __builtin_memcpy(&u, p, sizeof u);
  return u;
}

#if defined(__AVX512BF16__)
/// vdpbf16ps: both products of a pair are added to the chain by one instruction; subnormals count as zero.
struct Bf16Step {
  __m512i value;
  static Bf16Step columns(const bf16* p) { return {(__m512i)load_pairs(p)}; }
  static Bf16Step pair(uint32_t u) { return {_mm512_set1_epi32(static_cast<int32_t>(u))}; }
  static Bf16Step broadcast(const bf16* p) { return pair(load_pair(p)); }
  static Bf16Step broadcast_last(const bf16* p) { return pair(p->bits); }
  static Vec multiply_add(Bf16Step a, Bf16Step b, Vec c) {
#if defined(__clang__) && __clang_major__ < 17
    // clang 16 crashes when it optimizes the intrinsic's bf16 vectors.
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a.value), "v"(b.value));
    return c;
#else
    return _mm512_dpbf16_ps(c, (__m512bh)a.value, (__m512bh)b.value);
#endif
  }
};
#else
/// The lower or the upper element of each pair, widened to f32.
template <bool Upper>
struct Bf16Half {
  Vec value;
  static Bf16Half half(VecUint pairs) { return {(Vec)(Upper ? pairs & 0xffff0000u : pairs << 16)}; }
  static Bf16Half pair(uint32_t u) { return half((VecUint)splat_int(static_cast<int32_t>(u))); }
  static Bf16Half columns(const bf16* p) { return half(load_pairs(p)); }
  static Bf16Half broadcast(const bf16* p) { return pair(load_pair(p)); }
  static Bf16Half broadcast_last(const bf16* p) { return pair(p->bits); }
  static Vec multiply_add(Bf16Half a, Bf16Half b, Vec c) { return fma(a.value, b.value, c); }
};
#endif

// --- tiles ---------------------------------------------------------------------------------------------------------

/// Where the left operand lies: element (row, step) at data + row·row_stride + step·step_stride.
template <class T>
struct Left {
  const T* data;
  int64_t row_stride, step_stride;
};

/// Where accumulators fill the registers, compilers move other operands up and spill them: here all stay and nothing passes.
inline __attribute__((always_inline)) void keep_in_registers([[maybe_unused]] Vec (&sums)[kVecs]) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm volatile("" : "+x"(sums[0]), "+x"(sums[1])::"memory");
#endif
}

/// c (R, kPanel) += the column of R elements (pairs) at a times the row of the panel at b. Last: an unpaired element, whose
/// partner is zero in the packed panel and must not be read in the row.
template <int R, bool Last, class Step, class L, class T>
inline __attribute__((always_inline)) void step(Vec (&c)[R][kVecs], const L* a, int64_t row_stride, const T* b) {
  Step panel[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) panel[v] = Step::columns(b + v * kLanes * kStep<T>);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    Step x;
    if constexpr (Last)
      x = Step::broadcast_last(a + r * row_stride);
    else
      x = Step::broadcast(a + r * row_stride);
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) c[r][v] = Step::multiply_add(x, panel[v], c[r][v]);
    keep_in_registers(c[r]);
  }
}
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], const float* a, int64_t row_stride,
                                                 const float* b) {
  step<R, Last, F32Step>(c, a, row_stride, b);
}
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], const bf16* a, int64_t row_stride, const bf16* b) {
#if defined(__AVX512BF16__)
  step<R, Last, Bf16Step>(c, a, row_stride, b);
#else
  step<R, Last, Bf16Half<false>>(c, a, row_stride, b);
  step<R, Last, Bf16Half<true>>(c, a, row_stride, b);
#endif
}

#if !defined(__AVX512BF16__)
/// Half of a panel's pairs beside elements that are f32.
template <bool Upper>
struct WidenedHalf : Bf16Half<Upper> {
  static WidenedHalf columns(const bf16* p) { return {Bf16Half<Upper>::columns(p)}; }
  static WidenedHalf broadcast(const float* p) { return {{splat(p[Upper])}}; }
};
/// The elements are f32 and even in number.
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], const float* a, int64_t row_stride,
                                                 const bf16* b) {
  step<R, false, WidenedHalf<false>>(c, a, row_stride, b);
  step<R, false, WidenedHalf<true>>(c, a, row_stride, b);
}
#endif

/// acc (R, kPanel) += left rows 0..R-1 times `count` elements of the panel b.
template <int R, class L, class T>
void tile(Left<L> left, const T* b, int64_t count, float* acc) {
  Vec c[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) c[r][v] = load(acc + r * kPanel + v * kLanes);
  const L* a = left.data;
  for (int64_t s = 0; s < count / kStep<T>; ++s, a += left.step_stride, b += kPanel * kStep<T>) {
    // The panel's next block, for the second level: with few rows weights stream from memory. Beyond the end it does nothing.
    __builtin_prefetch(b + kPanel * kBlockSum<T>, 0, 2);
    steps<R, false>(c, a, left.row_stride, b);
  }
  if (count % kStep<T> != 0) steps<R, true>(c, a, left.row_stride, b);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(acc + r * kPanel + v * kLanes, c[r][v]);
}

template <class L, class T>
void tiles(Left<L> left, int64_t rows, const T* b, int64_t count, float* acc) {
  for (; rows >= kTileRows; rows -= kTileRows, acc += kTileRows * kPanel, left.data += kTileRows * left.row_stride)
    tile<kTileRows>(left, b, count, acc);
  if (rows == 1) tile<1>(left, b, count, acc);
  if (rows == 2) tile<2>(left, b, count, acc);
  if (rows == 3) tile<3>(left, b, count, acc);
  if (kTileRows > 4 && rows == 4) tile<4>(left, b, count, acc);
  if (kTileRows > 5 && rows == 5) tile<5>(left, b, count, acc);
}

/// Rows of the left operand as tiles take them, `count` elements of each from x on. Where T is widened, in `wide` (rows,
/// kBlockSum), with a zero behind an odd number.
template <class T>
Left<Wide<T>> left_rows(const T* x, int64_t stride, int64_t rows, int64_t count, int64_t step, Wide<T>* wide) {
  if constexpr (!kWidens<T>) {
    return {x, stride, step};
  } else {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t i = 0; i < count; i += kLanes) {
        const T* const from = x + r * stride + i;
        store(wide + r * kBlockSum<T> + i, count - i >= kLanes ? load(from) : load(from, count - i));
      }
    return {wide, kBlockSum<T>, step};
  }
}
template <class T>
constexpr int64_t kWidened = kWidens<T> ? kBlockRows* kBlockSum<T> : 1;

/// Panels that share what is made of a block of the left operand: as many as leave each thread several groups of them.
constexpr int64_t kMostTogether = 4;
inline int64_t panels_together(int64_t panels, int64_t blocks) {
  return blocks * panels >= 4 * kMostTogether * omp_get_max_threads() ? kMostTogether : 1;
}

void clear(float* acc, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) store(acc + i, splat(0.0f));
}

// --- packing -------------------------------------------------------------------------------------------------------

/// Rows s of src (count, columns; stride) to dst (count, width): f32 as they are, columns beyond `columns` zero.
void pack_rows(const float* src, int64_t stride, int64_t count, int64_t columns, int64_t width, float* dst) {
  for (int64_t s = 0; s < count; ++s)
    for (int64_t c = 0; c < width; c += kLanes) {
      const int64_t n = columns - c;
      store(dst + s * width + c, n >= kLanes ? load(src + s * stride + c) : load(src + s * stride + c, n > 0 ? n : 0));
    }
}
/// Widened.
[[maybe_unused]] void pack_rows(const bf16* src, int64_t stride, int64_t count, int64_t columns, int64_t width,
                                float* dst) {
  for (int64_t s = 0; s < count; ++s)
    for (int64_t c = 0; c < width; c += kLanes) {
      const int64_t n = columns - c;
      store(dst + s * width + c, n >= kLanes ? load(src + s * stride + c) : load(src + s * stride + c, n > 0 ? n : 0));
    }
}
/// bf16: rows 2s and 2s+1 side by side, element by element; the partner of a last odd row is zero.
void pack_rows(const bf16* src, int64_t stride, int64_t count, int64_t columns, int64_t width, bf16* dst) {
  for (int64_t s = 0; s < count; s += 2) {
    const bf16* lower = src + s * stride;
    const bf16* upper = s + 1 < count ? lower + stride : nullptr;
    for (int64_t c = 0; c < width; c += kLanes) {
      const int64_t left = columns - c, n = left < 0 ? 0 : smaller(left, kLanes);
      const bool full = n == kLanes;  // without AVX-512 a part of a line is read element by element
      const VecUint low = (VecUint)(full ? load(lower + c) : load(lower + c, n)) >> 16;  // widened: the upper half
      const VecUint high = (VecUint)(!upper ? splat(0.0f) : full ? load(upper + c) : load(upper + c, n));
      const VecUint pairs = low | high;
      __builtin_memcpy(dst + s * width + 2 * c, &pairs, sizeof pairs);
    }
  }
}

/// kFull: no row is missing. A branch for each of them keeps the square in memory: with AVX2 three times the time.
template <bool kFull, class T>
inline void pack_squares(const T* from, int64_t stride, int64_t rows, int64_t squares, int64_t column, T* panel) {
  constexpr int64_t kAt = kStep<T>, kSquare = kAt * kLanes;
  for (int64_t k0 = 0; k0 < squares; k0 += kSquare) {  // a line of each row at a time
    Vec v[kLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) {
      if (!kFull) v[i] = splat(0.0f);
      if (kFull || i < rows) __builtin_memcpy(&v[i], from + i * stride + k0, sizeof v[i]);
    }
    transpose(v);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i)
      __builtin_memcpy(panel + ((k0 / kAt + i) * kPanel + column) * kAt, &v[i], sizeof v[i]);
  }
}
/// Up to kLanes rows of `count` elements (stride `stride`) to columns [column, column + kLanes) of a panel, step-major
/// (pairs of elements for bf16), what is missing zero: squares of kLanes rows by kLanes steps of 4 bytes are transposed
/// in registers.
template <class T>
void pack_lanes(const T* from, int64_t stride, int64_t rows, int64_t count, int64_t column, T* panel) {
  constexpr int64_t kAt = kStep<T>, kSquare = kAt * kLanes;
  const int64_t padded = ceil_div(count, kAt) * kAt, squares = count / kSquare * kSquare;
  if (rows == kLanes)
    pack_squares<true>(from, stride, rows, squares, column, panel);
  else
    pack_squares<false>(from, stride, rows, squares, column, panel);
  for (int64_t i = squares; i < padded; ++i)
    for (int64_t r = 0; r < kLanes; ++r)
      panel[(i / kAt * kPanel + column + r) * kAt + i % kAt] = r < rows && i < count ? from[r * stride + i] : T{};
}

/// Weight w (n, k) to panels; within a panel step-major, kPanel rows side by side (pairs of them for bf16): squares of
/// kLanes rows by kLanes steps of 4 bytes are transposed in registers.
template <class T>
void pack(const T* w, int64_t n, int64_t k, T* packed) {
  constexpr int64_t kAt = kStep<T>;
  const int64_t padded = ceil_div(k, kAt) * kAt, panels = ceil_div(n, kPanel);
#pragma omp parallel for schedule(static) if (n * k >= kParallelFrom)
  for (int64_t p = 0; p < panels; ++p) {
    T* panel = packed + p * kPanel * padded;
    const T* from = w + p * kPanel * k;
    const int64_t rows = smaller(kPanel, n - p * kPanel);
    for (int64_t r = 0; r < kPanel; r += kLanes)
      pack_lanes(from + r * k, k, rows - r < 0 ? 0 : smaller(kLanes, rows - r), k, r, panel);
  }
}

// --- the products --------------------------------------------------------------------------------------------------

template <class T, class Out>
void exact(const T* x, const T* packed, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y) {
  const int64_t padded = ceil_div(k, kStep<T>) * kStep<T>;
  const int64_t panels = ceil_div(n, kPanel), blocks = ceil_div(m, kBlockRows);
  const int64_t together = kWidens<T> ? panels_together(panels, blocks) : 1, groups = ceil_div(panels, together);
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t group = 0; group < groups; ++group)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float acc[(kWidens<T> ? kMostTogether : 1) * kBlockRows * kPanel];
      alignas(64) Wide<T> wide[kWidened<T>];
      const int64_t row = block * kBlockRows, rows = smaller(kBlockRows, m - row);
      const int64_t begin = group * together, end = smaller(begin + together, panels);
      clear(acc, (end - begin) * rows * kPanel);
      for (int64_t k0 = 0; k0 < k; k0 += kBlockSum<T>) {
        const int64_t count = smaller(kBlockSum<T>, k - k0);
        const auto left = left_rows(x + row * k + k0, k, rows, count, kStep<T>, wide);
        for (int64_t p = begin; p < end; ++p)
          tiles(left, rows, packed + p * kPanel * padded + k0 * kPanel,
                kWidens<T> ? ceil_div(count, kStep<T>) * kStep<T> : count, acc + (p - begin) * rows * kPanel);
      }
      for (int64_t p = begin; p < end; ++p) {
        const int64_t column = p * kPanel;
        finish(acc + (p - begin) * rows * kPanel, kPanel, rows, smaller(kPanel, n - column),
               bias ? bias + column : nullptr, add, y + row * n + column, n);
      }
    }
}

// --- rows that are coded -------------------------------------------------------------------------------------------

constexpr int64_t kDecoded = 256;    // elements of a row at a time: whole blocks of every type
constexpr int64_t kCodedRows = 384;  // rows of x that share what was decoded: their sums of a panel are 96 KiB, for L2

/// Elements [begin, begin + count) of a row, rounded to the type of `out`.
inline void decode(const CodedRow& row, int64_t begin, int64_t count, float* out) {
  const BlockDecoder& type = *row.decoder;
  const uint8_t* at = row.at + begin / type.block_elements * type.block_bytes;
  if (type.decode) return type.decode(at, count / type.block_elements, out);
  type.decode_learned(at, count / type.block_elements, row.codebook, out);
}
inline void decode(const CodedRow& row, int64_t begin, int64_t count, bf16* out) {
  alignas(64) float wide[kDecoded];
  decode(row, begin, count, wide);
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = smaller(kLanes, count - i);
    store(out + i, load(wide + i, n), n);
  }
}

template <class T>
void decode_row(const CodedRows& piece, int64_t row, int64_t k, T* out) {
  const CodedRow from = coded_row(piece, row, k);
  for (int64_t k0 = 0; k0 < k; k0 += kDecoded) decode(from, k0, smaller(kDecoded, k - k0), out + k0);
}

/// `exact`, a panel being decoded and packed block by block on the way: the same chains over the same numbers.
template <class T, class Out>
void coded(const T* x, const CodedRows* pieces, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y) {
  const int64_t panels = ceil_div(n, kPanel), blocks = ceil_div(m, kCodedRows);
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float acc[kCodedRows * kPanel];
      alignas(64) T panel[kDecoded * kPanel];
      alignas(64) T plain[kLanes * kDecoded];
      CodedRow rows_here[kPanel], rows_next[kPanel];
      const int64_t row = block * kCodedRows, rows = smaller(kCodedRows, m - row);
      const int64_t column = p * kPanel, columns_here = smaller(kPanel, n - column);
      const int64_t columns_next = smaller(kPanel, n - column - columns_here);
      rows_of_panel(pieces, column, columns_here, k, rows_here);
      if (columns_next > 0) rows_of_panel(pieces, column + columns_here, columns_next, k, rows_next);
      clear(acc, rows * kPanel);
      for (int64_t k0 = 0; k0 < k; k0 += kDecoded) {
        const int64_t count = smaller(kDecoded, k - k0);
        for (int64_t c = 0; c < kPanel; c += kLanes) {
          const int64_t lanes = columns_here - c < 0 ? 0 : smaller(kLanes, columns_here - c);
          for (int64_t i = 0; i < lanes; ++i) {
            if (k0 + count < k)
              fetch(rows_here[c + i], k0 + count, smaller(kDecoded, k - k0 - count));
            else if (c + i < columns_next)
              fetch(rows_next[c + i], 0, smaller(kDecoded, k));
            decode(rows_here[c + i], k0, count, plain + i * kDecoded);
          }
          pack_lanes(plain, kDecoded, lanes, count, c, panel);
        }
        tiles(Left<T>{x + row * k + k0, k, kStep<T>}, rows, panel, count, acc);
      }
      finish(acc, kPanel, rows, columns_here, bias ? bias + column : nullptr, add, y + row * n + column, n);
    }
}

template <class T>
void nn(const T* dy, const T* w, int64_t m, int64_t n, int64_t k, bool add, T* dx) {
  const int64_t panels = ceil_div(k, kPanel), blocks = ceil_div(m, kBlockRows);
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t p = 0; p < panels; ++p)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float acc[kBlockRows * kPanel];
      alignas(64) Wide<T> panel[kBlockSum<T> * kPanel];
      alignas(64) Wide<T> wide[kWidened<T>];
      const int64_t row = block * kBlockRows, rows = smaller(kBlockRows, m - row);
      const int64_t column = p * kPanel, columns_here = smaller(kPanel, k - column);
      clear(acc, rows * kPanel);
      for (int64_t n0 = 0; n0 < n; n0 += kBlockSum<T>) {
        const int64_t count = smaller(kBlockSum<T>, n - n0);
        pack_rows(w + n0 * k + column, k, count, columns_here, kPanel, panel);
        tiles(left_rows(dy + row * n + n0, n, rows, count, kStep<Wide<T>>, wide), rows, panel, count, acc);
      }
      finish<T>(acc, kPanel, rows, columns_here, nullptr, add, dx + row * k + column, k);
    }
}

constexpr int64_t kCodedSum = 128;  // rows of w decoded at once: with kDecoded of their columns 128 KiB in f32, for L2
constexpr int64_t kCodedNnRows = 192;  // rows of dy that share them: their sums are 192 KiB

/// `nn`, stripes of kDecoded columns being decoded on the way, so that every block is decoded once for the panels in it:
/// the same chains over the same numbers.
template <class T>
void coded_nn(const T* dy, const CodedRows* pieces, int64_t m, int64_t n, int64_t k, bool add, T* dx) {
  const int64_t stripes = ceil_div(k, kDecoded), blocks = ceil_div(m, kCodedNnRows);
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t stripe = 0; stripe < stripes; ++stripe)
    for (int64_t block = 0; block < blocks; ++block) {
      alignas(64) float acc[kCodedNnRows * kDecoded];
      alignas(64) T plain[kCodedSum * kDecoded];
      alignas(64) T panel[kCodedSum * kPanel];
      CodedRow rows_here[kCodedSum];
      const int64_t row = block * kCodedNnRows, rows = smaller(kCodedNnRows, m - row);
      const int64_t begin = stripe * kDecoded, width = smaller(kDecoded, k - begin);
      clear(acc, rows * ceil_div(width, kPanel) * kPanel);
      for (int64_t n0 = 0; n0 < n; n0 += kCodedSum) {
        const int64_t count = smaller(kCodedSum, n - n0);
        rows_of_panel(pieces, n0, count, k, rows_here);
        for (int64_t i = 0; i < count; ++i) decode(rows_here[i], begin, width, plain + i * kDecoded);
        for (int64_t c = 0; c < width; c += kPanel) {
          pack_rows(plain + c, kDecoded, count, smaller(kPanel, width - c), kPanel, panel);
          tiles(Left<T>{dy + row * n + n0, n, kStep<T>}, rows, panel, count, acc + c * rows);
        }
      }
      for (int64_t c = 0; c < width; c += kPanel)
        finish<T>(acc + c * rows, kPanel, rows, smaller(kPanel, width - c), nullptr, add, dx + row * k + begin + c, k);
    }
}

/// The left operand is dyᵀ: a block of it is packed step-major, so its rows lie side by side, and serves several panels.
template <class T>
void tn(const T* dy, const T* x, int64_t m, int64_t n, int64_t k, float* dw) {
  constexpr int64_t kAt = kStep<Wide<T>>;
  const int64_t panels = ceil_div(k, kPanel), blocks = ceil_div(n, kBlockRows);
  const int64_t together = panels_together(panels, blocks), groups = ceil_div(panels, together);
#pragma omp parallel for collapse(2) schedule(static) if (m * n * k >= kParallelFrom)
  for (int64_t block = 0; block < blocks; ++block)
    for (int64_t group = 0; group < groups; ++group) {
      alignas(64) float acc[kMostTogether * kBlockRows * kPanel];
      alignas(64) Wide<T> panel[kBlockSum<T> * kPanel];
      alignas(64) Wide<T> left[kBlockSum<T> * kBlockRows];
      const int64_t row = block * kBlockRows, rows = smaller(kBlockRows, n - row);
      const int64_t begin = group * together * kPanel, end = smaller(begin + together * kPanel, k);
      clear(acc, together * rows * kPanel);
      for (int64_t m0 = 0; m0 < m; m0 += kBlockSum<T>) {
        const int64_t count = smaller(kBlockSum<T>, m - m0);
        pack_rows(dy + m0 * n + row, n, count, rows, kBlockRows, left);
        for (int64_t c = begin; c < end; c += kPanel) {
          pack_rows(x + m0 * k + c, k, count, smaller(kPanel, k - c), kPanel, panel);
          tiles(Left<Wide<T>>{left, kAt, kAt * kBlockRows}, rows, panel, ceil_div(count, kAt) * kAt,
                acc + (c - begin) * rows);
        }
      }
      for (int64_t c = begin; c < end; c += kPanel)
        finish<T>(acc + (c - begin) * rows, kPanel, rows, smaller(kPanel, k - c), nullptr, true, dw + row * k + c, k);
    }
}

}  // namespace

const MatmulTable matmul_table = {
    .panel = kPanel,
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
    .nn_f32 = nn<float>,
    .nn_bf16 = nn<bf16>,
    .tn_f32 = tn<float>,
    .tn_bf16 = tn<bf16>,
};

}  // namespace tern::TERN_ISA_NAMESPACE
