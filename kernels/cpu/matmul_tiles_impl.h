#pragma once
// Tiles of the products of a linear layer, for *_isa.cpp files, and how their operands are packed. A tile is up to kTileRows rows by one
// panel of kPanel columns; each element is one chain of multiply-adds over the summed dimension, ascending, whatever tile it falls into.

#include <omp.h>

#include <type_traits>

#include "kernels/cpu/small_gemm_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

#if defined(__AVX512F__)
constexpr int kVecs = 4, kTileRows = 6;  // 24 accumulators, 4 vectors of columns, 1 broadcast: 29 of 32 registers
#elif defined(__FMA__)
// 12 accumulators, 2 vectors of columns, 1 broadcast, 1 mask for bf16: 16 registers
constexpr int kVecs = 2, kTileRows = 6;
#else
constexpr int kVecs = 2, kTileRows = 4;  // 8 accumulators of SSE2's 16 registers; each product needs another one
#endif
constexpr int kPanel = kVecs * kLanes;
constexpr int64_t kBlockRows = 96;          // rows; 96 × 64 × 4 = 24 KiB of accumulators, in L2 with the panel
constexpr int64_t kParallelFrom = 1 << 16;  // multiply-adds: below, starting threads costs more than it gives

/// Elements of the summed dimension taken at a time: 32 KiB of a panel, so that it stays in L1 while all rows are multiplied with it.
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

/// c += a·b. On AVX2 by the form of the instruction that writes into c's register: compilers choose other forms and copy the sum afterwards.
inline __attribute__((always_inline)) Vec add_product(Vec a, Vec b, Vec c) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm("vfmadd231ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
  return c;
#else
  return fma(a, b, c);
#endif
}

struct F32Step {
  Vec value;
  static F32Step columns(const float* p) { return {load(p)}; }
  static F32Step broadcast(const float* p) { return {splat(*p)}; }
  static F32Step broadcast_last(const float* p) { return broadcast(p); }
  static Vec multiply_add(F32Step a, F32Step b, Vec c) { return add_product(a.value, b.value, c); }
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
  static Vec multiply_add(Bf16Half a, Bf16Half b, Vec c) { return add_product(a.value, b.value, c); }
};
#endif

// --- tiles ---------------------------------------------------------------------------------------------------------

/// Where the left operand lies: element (row, step) at data + row·row_stride + step·step_stride.
template <class T>
struct Left {
  const T* data;
  int64_t row_stride, step_stride;
};

/// The rows of a tile at one step: rows 0 to 2 from `low` on, rows 3 to 5 from `high` on. So each address is one register, or two registers
/// and a scale.
template <class L>
struct TileRows {
  const char* low;
  const char* high;
  int64_t stride;  // bytes from one row to the next

  TileRows(const L* data, int64_t row_stride)
      : low(reinterpret_cast<const char*>(data)),
        high(low + 3 * row_stride * static_cast<int64_t>(sizeof(L))),
        stride(row_stride * static_cast<int64_t>(sizeof(L))) {}
  const L* row(int r) const { return reinterpret_cast<const L*>(r < 3 ? low + r * stride : high + (r - 3) * stride); }
  void advance(int64_t bytes) { low += bytes, high += bytes; }
};

/// Where accumulators fill the registers, compilers load other operands early and spill them. This hides from the compiler where the rows lie,
/// so it loads from one row at a time.
template <class L>
inline __attribute__((always_inline)) void keep_in_registers([[maybe_unused]] Vec (&sums)[kVecs],
                                                             [[maybe_unused]] TileRows<L>& rows) {
#if defined(__FMA__) && !defined(__AVX512F__)
  asm volatile("" : "+x"(sums[0]), "+x"(sums[1]), "+r"(rows.low), "+r"(rows.high));
#endif
}

/// One step: c (R, kPanel) += one element (bf16: one pair) of each of R rows times the panel's elements (pairs) at b. Last: a last element of bf16
/// without a partner; the partner is zero in the packed panel and must not be read from the row.
template <int R, bool Last, class Step, class L, class T>
inline __attribute__((always_inline)) void step(Vec (&c)[R][kVecs], TileRows<L>& rows, const T* b) {
  Step panel[kVecs];
#pragma GCC unroll 8
  for (int v = 0; v < kVecs; ++v) panel[v] = Step::columns(b + v * kLanes * kStep<T>);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    Step x;
    if constexpr (Last)
      x = Step::broadcast_last(rows.row(r));
    else
      x = Step::broadcast(rows.row(r));
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) c[r][v] = Step::multiply_add(x, panel[v], c[r][v]);
    keep_in_registers(c[r], rows);
  }
}
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], TileRows<float>& rows, const float* b) {
  step<R, Last, F32Step>(c, rows, b);
}
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], TileRows<bf16>& rows, const bf16* b) {
#if defined(__AVX512BF16__)
  step<R, Last, Bf16Step>(c, rows, b);
#else
  step<R, Last, Bf16Half<false>>(c, rows, b);
  step<R, Last, Bf16Half<true>>(c, rows, b);
#endif
}

#if !defined(__AVX512BF16__)
/// One half of each pair of a bf16 panel, for a left operand in f32.
template <bool Upper>
struct WidenedHalf : Bf16Half<Upper> {
  static WidenedHalf columns(const bf16* p) { return {Bf16Half<Upper>::columns(p)}; }
  static WidenedHalf broadcast(const float* p) { return {{splat(p[Upper])}}; }
};
/// A left operand in f32 with an even number of elements, times a panel of bf16.
template <int R, bool Last>
inline __attribute__((always_inline)) void steps(Vec (&c)[R][kVecs], TileRows<float>& rows, const bf16* b) {
  step<R, false, WidenedHalf<false>>(c, rows, b);
  step<R, false, WidenedHalf<true>>(c, rows, b);
}
#endif

/// What is prefetched while a tile is computed: an address, and the bytes to the next step's address. Addresses beyond the end do no harm.
struct Ahead {
  const char* at;
  int64_t bytes;
};

/// acc (R, kPanel) += left rows 0..R-1 times `count` elements of the panel b.
template <int R, class L, class T>
void tile(Left<L> left, const T* b, int64_t count, float* acc, Ahead ahead) {
  Vec c[R][kVecs];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) c[r][v] = load(acc + r * kPanel + v * kLanes);
  TileRows<L> rows(left.data, left.row_stride);
  const int64_t advance = left.step_stride * static_cast<int64_t>(sizeof(L));
  for (int64_t s = count / kStep<T>; s > 0; --s, rows.advance(advance), b += kPanel * kStep<T>) {
    __builtin_prefetch(ahead.at, 0, 2);
    ahead.at += ahead.bytes;
    steps<R, false>(c, rows, b);
  }
  if (count % kStep<T> != 0) steps<R, true>(c, rows, b);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int v = 0; v < kVecs; ++v) store(acc + r * kPanel + v * kLanes, c[r][v]);
}

/// acc (rows, kPanel) += the left rows times `count` elements of the panel b. next: the block of the panel that follows b, or null. The tiles
/// prefetch it into L2, each a share of it, as with few rows one tile ends too soon to prefetch all of it.
template <class L, class T>
void tiles(Left<L> left, int64_t rows, const T* b, int64_t count, float* acc, const T* next = nullptr) {
  constexpr int64_t kStepBytes = kPanel * kStep<T> * static_cast<int64_t>(sizeof(T));
  Ahead ahead{reinterpret_cast<const char*>(next ? next : b), next ? kStepBytes / ceil_div(rows, kTileRows) : 0};
  for (; rows >= kTileRows; rows -= kTileRows, acc += kTileRows * kPanel, left.data += kTileRows * left.row_stride) {
    tile<kTileRows>(left, b, count, acc, ahead);
    ahead.at += count / kStep<T> * ahead.bytes;
  }
  if (rows == 1) tile<1>(left, b, count, acc, ahead);
  if (rows == 2) tile<2>(left, b, count, acc, ahead);
  if (rows == 3) tile<3>(left, b, count, acc, ahead);
  if (kTileRows > 4 && rows == 4) tile<4>(left, b, count, acc, ahead);
  if (kTileRows > 5 && rows == 5) tile<5>(left, b, count, acc, ahead);
}

/// The left operand as tiles take it: `count` elements of each of `rows` rows, from x on. If T is widened, they are written to `wide` (rows,
/// kBlockSum), with a zero behind an odd number of them.
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

/// How many panels share one widened block of the left operand, which takes about a third of a panel's time to make: the number, up to
/// `most`, for which the busiest thread ends earliest. Half a group is added for the time that other programs take on the cores.
constexpr int64_t kMostTogether = kPanel < 64 ? 8 : 4;
inline int64_t panels_together(int64_t panels, int64_t blocks, int64_t most = kMostTogether) {
  const int64_t threads = omp_get_max_threads();
  int64_t best = 1, least = INT64_MAX;
  for (int64_t together = most; together > 0; --together) {
    const int64_t groups = ceil_div(panels, together) * blocks;
    const int64_t time = (2 * ceil_div(groups, threads) + 1) * (3 * together + 1);
    if (time < least) best = together, least = time;
  }
  return best;
}

/// How many panels a part takes where x was widened beforehand: few enough that the threads end together, and whole cache lines of bf16.
inline int64_t panels_of_part(int64_t panels, int64_t blocks, int64_t most) {
  constexpr int64_t kPartsOfThread = 16, kLeast = kPanel < 32 ? 32 / kPanel : 1;
  const int64_t each = panels * blocks / (kPartsOfThread * omp_get_max_threads());
  return smaller(each < kLeast ? kLeast : each, most);
}

void clear(float* acc, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) store(acc + i, splat(0.0f));
}

// --- packing -------------------------------------------------------------------------------------------------------

/// Copies rows of src (count, columns; row stride `stride`) to dst (count, width); columns from `columns` on become zero.
void pack_rows(const float* src, int64_t stride, int64_t count, int64_t columns, int64_t width, float* dst) {
  for (int64_t s = 0; s < count; ++s)
    for (int64_t c = 0; c < width; c += kLanes) {
      const int64_t n = columns - c;
      store(dst + s * width + c, n >= kLanes ? load(src + s * stride + c) : load(src + s * stride + c, n > 0 ? n : 0));
    }
}
#if defined(__AVX512BF16__)
/// bf16: rows 2s and 2s+1 side by side, element by element; the partner of a last odd row is zero.
void pack_rows(const bf16* src, int64_t stride, int64_t count, int64_t columns, int64_t width, bf16* dst) {
  for (int64_t s = 0; s < count; s += 2) {
    const bf16* lower = src + s * stride;
    const bf16* upper = s + 1 < count ? lower + stride : nullptr;
    for (int64_t c = 0; c < width; c += kLanes) {
      const int64_t left = columns - c, n = left < 0 ? 0 : smaller(left, kLanes);
      const bool full = n == kLanes;  // a whole vector is loaded without a mask
      const VecUint low = (VecUint)(full ? load(lower + c) : load(lower + c, n)) >> 16;  // bf16 is in the upper half
      const VecUint high = (VecUint)(!upper ? splat(0.0f) : full ? load(upper + c) : load(upper + c, n));
      const VecUint pairs = low | high;
      __builtin_memcpy(dst + s * width + 2 * c, &pairs, sizeof pairs);
    }
  }
}
#endif

/// Elements of each of the kLanes rows that are transposed at once: kLanes steps of 4 bytes.
template <class T>
constexpr int64_t kSquareOf = kLanes* kStep<T>;

/// The whole squares of pack_lanes. kFull: no row is missing. A branch per row would keep the square in memory: with AVX2 three times the time.
template <bool kFull, class From, int64_t kWidth, class T>
inline void pack_squares(const uint8_t* const* from, const uint8_t* const* ahead, int64_t rows, int64_t squares,
                         int64_t column, T* panel) {
  constexpr int64_t kSquare = kSquareOf<From>, kSize = sizeof(From), kAt = kStep<T>;
  const uint8_t* row[kLanes];  // in registers: for all that compilers know, a store to `panel` may change `from`
#pragma GCC unroll 16
  for (int64_t i = 0; i < kLanes; ++i) row[i] = from[i];
  for (int64_t k0 = 0; k0 < squares; k0 += kSquare) {  // with AVX-512 a cache line of each row at a time
    if (ahead && k0 * kSize % 64 == 0)
      for (int64_t i = 0; i < kLanes; ++i) __builtin_prefetch(ahead[i] + k0 * kSize, 0, 2);
    Vec v[kLanes];
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) {
      if (!kFull) v[i] = splat(0.0f);
      if (kFull || i < rows) __builtin_memcpy(&v[i], row[i] + k0 * kSize, sizeof v[i]);
    }
    transpose(v);
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i) {
      if constexpr (std::is_same_v<From, T>) {
        __builtin_memcpy(panel + ((k0 / kAt + i) * kWidth + column) * kAt, &v[i], sizeof v[i]);
      } else {  // pairs of bf16 become two rows of f32: the lower elements, then the upper ones
        float* const to = panel + (k0 + 2 * i) * kWidth + column;
        store(to, (Vec)((VecUint)v[i] << 16)), store(to + kWidth, (Vec)((VecUint)v[i] & 0xffff0000u));
      }
    }
  }
}
/// Packs up to kLanes rows of `count` elements (of any alignment) to columns [column, column + kLanes) of a panel, step-major (in pairs for bf16);
/// what is missing becomes zero. Squares of kLanes rows by kLanes steps of 4 bytes are transposed in registers. From: T, or bf16 that is widened
/// to f32. kWidth: columns of the panel. ahead: kLanes addresses of rows to prefetch meanwhile, or null.
template <class From, class T, int64_t kWidth = kPanel>
void pack_lanes(const uint8_t* const* from, int64_t rows, int64_t count, int64_t column, T* panel,
                const uint8_t* const* ahead = nullptr) {
  constexpr int64_t kAt = kStep<T>, kSize = sizeof(From);
  const int64_t padded = ceil_div(count, kAt) * kAt, squares = count / kSquareOf<From> * kSquareOf<From>;
  if (rows == kLanes)
    pack_squares<true, From, kWidth>(from, ahead, rows, squares, column, panel);
  else
    pack_squares<false, From, kWidth>(from, ahead, rows, squares, column, panel);
  for (int64_t i = squares; i < padded; ++i)
    for (int64_t r = 0; r < kLanes; ++r) {
      From x{};
      if (r < rows && i < count) __builtin_memcpy(&x, from[r] + i * kSize, sizeof x);
      T& to = panel[(i / kAt * kWidth + column + r) * kAt + i % kAt];
      if constexpr (std::is_same_v<From, T>)
        to = x;
      else
        to = as_float(x);
    }
}

/// Packs the weight w (n, k) into panels of kPanel rows. A panel is step-major: it holds element 0 (for bf16 elements 0 and 1) of its rows side
/// by side, then the next element (pair). Squares of kLanes rows by kLanes steps of 4 bytes are transposed in registers.
template <class T>
void pack(const T* w, int64_t n, int64_t k, T* packed) {
  constexpr int64_t kAt = kStep<T>;
  const int64_t padded = ceil_div(k, kAt) * kAt, panels = ceil_div(n, kPanel);
#pragma omp parallel for schedule(static) if (n * k >= kParallelFrom)
  for (int64_t p = 0; p < panels; ++p) {
    T* panel = packed + p * kPanel * padded;
    const T* from = w + p * kPanel * k;
    const int64_t rows = smaller(kPanel, n - p * kPanel);
    for (int64_t r = 0; r < kPanel; r += kLanes) {
      const uint8_t* at[kLanes];
      for (int64_t i = 0; i < kLanes; ++i) at[i] = reinterpret_cast<const uint8_t*>(from + (r + i) * k);
      pack_lanes<T>(at, rows - r < 0 ? 0 : smaller(kLanes, rows - r), k, r, panel);
    }
  }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
