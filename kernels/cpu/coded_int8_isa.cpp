// Products of coded weights in integers (coded_int8.h says which numbers). A thread rounds up to kXRows rows of x and multiplies
// them with panels of kInt8Panel rows of w. A row of w is multiplied as it lies (row_dots_impl.h; with VBMI all rows of learned codes in
// a panel, two at a time, by learned_rows_impl.h), or its codes are unpacked 256 numbers at a time, once for all those rows of x.

#include <omp.h>

#include "base/rounding.h"
#include "kernels/cpu/coded_int8.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/coded_rows_impl.h"
#include "kernels/cpu/decode_impl.h"
#include "kernels/cpu/finish_impl.h"
#include "kernels/cpu/int8_tiles_impl.h"
#include "kernels/cpu/learned_rows_impl.h"
#include "kernels/cpu/row_dots_impl.h"
#include "kernels/cpu/shares.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int64_t kInt8Panel = 64;  // rows of w
constexpr int64_t kXRows = 64;      // of x at most, so that a row of w is unpacked or fetched once for many
constexpr int64_t kRounded = kInt8Columns / 256;  // of x: on a thread's stack, 224 or (VBMI) 352 KiB at most
constexpr int64_t kInt8Parallel = 1 << 16;        // multiply-adds: below, starting threads costs more than it gives
constexpr int64_t kUnpacked = 8;  // rows of w at a time: what was stored in parts is not loaded whole at once
constexpr float kRoundToEven = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer in the lowest bits
constexpr uint32_t kZeroBelow = 27u << 23;   // bits of 2^-100
constexpr uint32_t kInfinity = 0x7f800000u;

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline uint32_t largest(VecUint v) {
#if defined(__AVX2__)
#if defined(__AVX512F__)
  const __m256i eight = _mm256_max_epu32((__m256i)__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                                         (__m256i)__builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const __m256i eight = (__m256i)v;
#endif
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4e));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(most, _mm_shuffle_epi32(most, 0xb1))));
#else
  uint32_t most = 0;
  for (int lane = 0; lane < kLanes; ++lane) most = v[lane] > most ? v[lane] : most;
  return most;
#endif
}

/// The scale of 32 neighbours, and their codes.
template <class T>
float round_group(const T* x, int8_t* codes) {
  Vec v[32 / kLanes];
  VecUint most = (VecUint)splat(0.0f);
  for (int i = 0; i < 32 / kLanes; ++i) {
    v[i] = load(x + i * kLanes);
    const VecUint bits = (VecUint)abs(v[i]);
    const VecUint larger = (VecUint)(bits > most);
    most = (bits & larger) | (most & ~larger);
  }
  const uint32_t amax = largest(most);
  if (amax < kZeroBelow || amax >= kInfinity) {
    __builtin_memset(codes, 0, 32);
    return amax < kZeroBelow ? 0.0f : __builtin_nanf("");
  }
  float largest_magnitude;
  __builtin_memcpy(&largest_magnitude, &amax, 4);
  const Vec inverse = splat(127.0f / largest_magnitude), even = splat(kRoundToEven);
  VecInt code[32 / kLanes];
  for (int i = 0; i < 32 / kLanes; ++i) code[i] = (VecInt)(v[i] * inverse + even) - (VecInt)even;
#if defined(__AVX512F__)
  for (int i = 0; i < 2; ++i)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(codes) + i, _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)code[i]));
#elif defined(__AVX2__)
  // Packing takes the halves of its two vectors in turn: fours of codes come as 0 2 4 6 1 3 5 7.
  const __m256i first = _mm256_packs_epi32((__m256i)code[0], (__m256i)code[1]);
  const __m256i all = _mm256_packs_epi16(first, _mm256_packs_epi32((__m256i)code[2], (__m256i)code[3]));
  const __m256i fours = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), fours);
#else
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<int8_t>(code[i / kLanes][i % kLanes]);
#endif
  return largest_magnitude / 127.0f;
}

inline int sum_of_16(const int8_t* codes) {
#if defined(__AVX2__)
  const __m128i plus_128 = _mm_xor_si128(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)), _mm_set1_epi8(-128));
  const __m128i halves = _mm_sad_epu8(plus_128, _mm_setzero_si128());
  return _mm_cvtsi128_si32(halves) + _mm_extract_epi16(halves, 4) - 16 * 128;
#else
  int sum = 0;
  for (int i = 0; i < 16; ++i) sum += codes[i];
  return sum;
#endif
}

/// Numbers [0, count) of a row, whole groups of 32.
template <class T>
void round_row(const T* x, int64_t count, Rounded* to) {
  for (; count > 0; count -= kGroupedCodes, x += kGroupedCodes, ++to) {
    const int64_t groups = smaller(count, kGroupedCodes) / 32;
    if (groups < 8) __builtin_memset(to, 0, sizeof *to);
    for (int64_t g = 0; g < groups; ++g) {
      alignas(32) int8_t codes[32];
      const float scale = to->scales[g] = round_group(x + g * 32, codes);
      const int first = sum_of_16(codes), second = sum_of_16(codes + 16);
      to->sums[g] = scale * static_cast<float>(first + second);
      to->sums_of_16[0][g] = scale * static_cast<float>(first),
      to->sums_of_16[1][g] = scale * static_cast<float>(second);
      to->less[g] = -128 * (first + second), to->less_of_first[g] = -128 * first;
      __builtin_memcpy(to->codes + place_of_group(g), codes, 16);
      __builtin_memcpy(to->codes + place_of_group(g) + kToSecond, codes + 16, 16);
#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)
      for (int64_t four = 0; four < 8; ++four)
        __builtin_memcpy(to->by_elements + place_of_four(g, four), codes + 4 * four, 4);
#endif
    }
  }
}

/// 256 neighbours of a row of w, their codes in the order of Rounded's; by_16: with two scales for each 32.
struct Unpacked {
  alignas(64) int8_t codes[256];
  Scales scales;
  bool by_16, has_leasts;
};
inline void put_in_order(const CodeGroups& from, Unpacked& to) {
  for (int64_t g = 0; g < 8; ++g) {
    __builtin_memcpy(to.codes + place_of_group(g), from.codes + 32 * g, 16);
    __builtin_memcpy(to.codes + place_of_group(g) + kToSecond, from.codes + 32 * g + 16, 16);
    for (int half = 0; half < 2; ++half) {
      to.scales.of[half][g] = from.scales[2 * g + half];
      to.scales.leasts[half][g] = from.leasts[2 * g + half];
    }
  }
  to.by_16 = from.by_16, to.has_leasts = from.has_leasts;
}

/// Codes in memory, of any sign.
template <bool kBy16, bool kWithLeasts>
struct DotsUnpacked {
  static constexpr int kMost = 128, kLess = 0;
  static constexpr bool kAnySign = true, kScalesOf16 = kBy16, kLeasts = kWithLeasts;
};
/// chains += the products of 256 numbers of a row of w and of x.
inline void add_products(const Unpacked& w, const Rounded& x, Eight& chains) {
  const Stretch codes = load_stretch(w.codes);
  if (w.by_16)
    chains = w.has_leasts ? plus_products<DotsUnpacked<true, true>>(codes, w.scales, x, chains)
                          : plus_products<DotsUnpacked<true, false>>(codes, w.scales, x, chains);
  else
    chains = w.has_leasts ? plus_products<DotsUnpacked<false, true>>(codes, w.scales, x, chains)
                          : plus_products<DotsUnpacked<false, false>>(codes, w.scales, x, chains);
}

/// Numbers [begin, begin + count) of a row; behind them scales are zero.
inline void unpack(const CodedRow& w, int64_t begin, int64_t count, Unpacked& to) {
  const BlockDecoder& type = *w.decoder;
  const auto id = &type - decode_table.of;
  const uint8_t* at = w.at + begin / type.block_elements * type.block_bytes;
  alignas(64) CodeGroups groups;
  if (code_groups_table.of[id])
    code_groups_table.of[id](at, count / type.block_elements, groups);
  else
    code_groups_table.of_learned[id](at, count / type.block_elements, w.codebook, groups);
  if (const int64_t rest = kGroupedCodes - count; rest > 0) {
    __builtin_memset(groups.codes + count, 0, static_cast<size_t>(rest));
    for (int64_t i = count / 16; i < kGroupedCodes / 16; ++i) groups.scales[i] = groups.leasts[i] = 0;
  }
  put_in_order(groups, to);
}

/// Rounded rows of x that are x_stride apart.
struct RoundedRows {
  const Rounded* x;
  int64_t x_stride, rows;
};

/// sums (rows of x; kInt8Panel) = the products with `number` rows of a piece from `first` on, unpacked before.
void multiply_unpacked(const CodedRows& piece, int64_t first, int64_t number, int64_t k, const RoundedRows& x,
                       float* sums) {
  Eight chains[kXRows][kUnpacked];
  Unpacked groups[kUnpacked];
  CodedRow w[kUnpacked];
  for (int64_t r = 0; r < number; ++r) w[r] = coded_row(piece, first + r, k);
  __builtin_memset(chains, 0, static_cast<size_t>(x.rows) * sizeof chains[0]);
  const int64_t follow = smaller(number, piece.count - first - number);  // rows that come next
  for (int64_t k0 = 0; k0 < k; k0 += kGroupedCodes) {
    const int64_t here = smaller(kGroupedCodes, k - k0), next = smaller(kGroupedCodes, k - k0 - here);
    for (int64_t r = 0; r < number; ++r) {
      if (next > 0)
        fetch(w[r], k0 + here, next);
      else if (r < follow)
        fetch({blocks_of_row(piece, first + number + r, k), w[r].decoder, {}}, 0, smaller(kGroupedCodes, k));
      unpack(w[r], k0, here, groups[r]);
    }
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t r = 0; r < number; ++r)
        add_products(groups[r], x.x[i * x.x_stride + k0 / kGroupedCodes], chains[i][r]);
  }
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t r = 0; r < number; ++r) sums[i * kInt8Panel + r] = sum_of_chains(chains[i][r]);
}

/// The same with codes as they lie. A row is looked at when its turn comes: its scale is in memory that is not read yet.
void multiply_as_they_lie(const CodedRows& piece, const RowDots* dots, int64_t first, int64_t number, int64_t k,
                          const RoundedRows& x, float* sums) {
  const BlockDecoder& type = decode_table.of[static_cast<int>(piece.type)];
  const int64_t row_bytes = type.row_header_bytes + k / type.block_elements * type.block_bytes;
  for (int64_t i = 0; i < x.rows; i += kDotRows)  // few rows of x with many of w: they stay in L1
    for (int64_t r = 0; r < number; ++r) {
      const uint8_t* row = piece.bytes + place_of_row(piece, first + r) * row_bytes;
      RowCodebook codebook;
      if (type.decode_learned) codebook = {piece.tables, to_float(number_at<bf16>(row))};
      const int64_t rows = smaller(kDotRows, x.rows - i);
      dots[rows > 1](row + type.row_header_bytes, codebook, k / 32, x.x + i * x.x_stride, x.x_stride, rows,
                     sums + i * kInt8Panel + r, kInt8Panel);
    }
}

/// The same with rows [column, column + columns) of all pieces.
void multiply_panel(const CodedRows* piece, int64_t column, int64_t columns, int64_t k, const RoundedRows& x,
                    float* sums) {
  for (; column >= piece->count; ++piece) column -= piece->count;
  for (int64_t done = 0; done < columns; ++piece, column = 0) {
    const int64_t number = smaller(columns - done, piece->count - column);
    float* of = sums + done;
    done += number;
    if (const LearnedDots* dots = learned_dots_of(piece->type)) {
      for (int64_t i = 0; i < x.rows; i += kDotRows) {  // few rows of x with many of w: they stay in L1
        const int64_t rows = smaller(kDotRows, x.rows - i);
        dots[rows > 1](*piece, column, number, k, x.x + i * x.x_stride, x.x_stride, rows, of + i * kInt8Panel,
                       kInt8Panel);
      }
      continue;
    }
    if (const RowDots* dots = row_dots_of(piece->type)) {
      multiply_as_they_lie(*piece, dots, column, number, k, x, of);
      continue;
    }
    for (int64_t r = 0; r < number; r += kUnpacked)
      multiply_unpacked(*piece, column + r, smaller(kUnpacked, number - r), k, x, of + r);
  }
}

/// How many rows of x a thread keeps rounded: a multiple of 8, if at least 8.
inline int64_t rounded_rows(int64_t stretches) {
  const int64_t rows = stretches == 0 ? kXRows : smaller(kXRows, kRounded / stretches);
  return rows < kDotRows ? rows : rows / kDotRows * kDotRows;
}

template <class T, class Out>
void coded_int8(const T* x, const CodedRows* pieces, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y,
                int64_t y_stride) {
  const int64_t x_stride = ceil_div(k, kGroupedCodes), kept = rounded_rows(x_stride);
  const int64_t panels = ceil_div(n, kInt8Panel), blocks = ceil_div(m, kept);
  TaskShares shares;
  share_tasks(blocks * panels, omp_get_max_threads(), shares);
#pragma omp parallel if (m * n * k >= kInt8Parallel)
  {
    Rounded xs[kRounded];
    int64_t rounded = -1;
    for (;;) {
      const TaskRange task = take_tasks(shares, omp_get_thread_num(), 1);
      if (task.begin == task.end) break;
      alignas(64) float sums[kXRows * kInt8Panel];
      const int64_t block = task.begin / panels, row = block * kept, rows = smaller(kept, m - row);
      const int64_t column = task.begin % panels * kInt8Panel, columns = smaller(kInt8Panel, n - column);
      if (rounded != block)
        for (int64_t i = 0; i < rows; ++i) round_row(x + (row + i) * k, k, xs + i * x_stride);
      rounded = block;
      multiply_panel(pieces, column, columns, k, {xs, x_stride, rows}, sums);
      finish(sums, kInt8Panel, rows, columns, bias ? bias + column : nullptr, add, y + row * y_stride + column,
             y_stride);
    }
  }
}

#if defined(__AMX_INT8__)

template <class T>
void round_strip(const T* x, int64_t rows, int64_t k, bool with_sums, void* strip) {
  const int64_t stretches = ceil_div(k, kGroupedCodes);
  auto* const to = static_cast<XGroup*>(strip);
  if (rows < kTileRows || k % kGroupedCodes != 0)
    __builtin_memset(strip, 0, static_cast<size_t>(stretches * kInt8StretchBytes));
  for (int64_t i = 0; i < k / 32; ++i) {
    XGroup& group = to[i % 8 * stretches + i / 8];
    for (int64_t r = 0; r < rows; ++r) {
      const float scale = group.scales[r] = round_group(x + r * k + i * 32, group.codes[r]);
      if (!with_sums) continue;
      const int first = sum_of_16(group.codes[r]), second = sum_of_16(group.codes[r] + 16);
      group.sums[r] = scale * static_cast<float>(first + second);
      group.sums_of_16[0][r] = scale * static_cast<float>(first);
      group.sums_of_16[1][r] = scale * static_cast<float>(second);
    }
  }
}

/// 256 neighbours of each of `number` rows of w from stretch `stretch` on; what is behind a row's end is zero.
template <class Type>
void unpack_rows(const CodedRow* w, int64_t number, int64_t stretch, int64_t groups, Stretch* codes, Scales* scales) {
  constexpr int64_t kStretch = 256 / Type::kNumbers * Type::kBytes;
  constexpr int kAdded = Type::kBiased ? 128 : Type::kLess;
  alignas(64) uint8_t last[kStretch];
  for (int64_t r = 0; r < number; ++r) {
    const uint8_t* at = w[r].at + stretch * kStretch;
    for (int64_t line = 0; line < kStretch; line += 64) __builtin_prefetch(at + kStretch + line, 0, 2);
    if (groups < 8) {
      __builtin_memset(last, 0, sizeof last);
      __builtin_memcpy(last, at, static_cast<size_t>(groups * Type::kBytes));
      at = last;
    }
    const auto read = Type::read(at);
    Stretch of = unpacked<Type>(read, Type::prepared(w[r].codebook));
    if constexpr (kAdded > 0)
      for (Codes* c : {&of.j0.first, &of.j0.second, &of.j1.first, &of.j1.second})
        *c = _mm512_sub_epi8(*c, every_byte(kAdded));
    codes[r] = of, scales[r] = scales_of<Type>(read, w[r].codebook, groups);
  }
}
struct TypeOfRows {
  bool by_16 = false, has_leasts = false;
  void (*unpack)(const CodedRow*, int64_t number, int64_t stretch, int64_t groups, Stretch*, Scales*) = nullptr;
};
template <class Type>
constexpr TypeOfRows kTypeOfRows = {Type::kScalesOf16, Type::kLeasts, unpack_rows<Type>};
/// nullptr: the codes are unpacked to memory first, which tells the rest.
const TypeOfRows* type_of_rows(WeightType type) {
  return of_dots<const TypeOfRows*>(type, [](auto dots) -> const TypeOfRows* { return &kTypeOfRows<decltype(dots)>; });
}
/// Whether products with a piece need sums of x's codes.
bool needs_sums(WeightType type) {
  const TypeOfRows* const known = type_of_rows(type);
  return !known || known->has_leasts;
}

/// Up to 16 rows of a piece from `first` on, as tiles have them.
TypeOfRows arrange_rows(const CodedRows& piece, int64_t first, int64_t number, int64_t k, WGroup* to) {
  const TypeOfRows* const known = type_of_rows(piece.type);
  TypeOfRows type = known ? *known : TypeOfRows();
  CodedRow w[kTileRows];
  Stretch codes[kTileRows];
  Scales scales[kTileRows];
  for (int64_t r = 0; r < number; ++r) w[r] = coded_row(piece, first + r, k);
  if (number < kTileRows) __builtin_memset(codes, 0, sizeof codes), __builtin_memset(scales, 0, sizeof scales);
  const int64_t stretches = ceil_div(k, kGroupedCodes);
  for (int64_t i = 0; i < stretches; ++i) {
    const int64_t k0 = i * kGroupedCodes, here = smaller(kGroupedCodes, k - k0);
    if (known)
      type.unpack(w, number, i, here / 32, codes, scales);
    else
      for (int64_t r = 0; r < number; ++r) {
        Unpacked groups;
        fetch(w[r], k0 + here, smaller(kGroupedCodes, k - k0 - here));
        unpack(w[r], k0, here, groups);
        codes[r] = load_stretch(groups.codes), scales[r] = groups.scales;
        type.by_16 = groups.by_16, type.has_leasts = groups.has_leasts;
      }
    arrange(codes, scales, type.by_16, to + i, stretches);
  }
  return type;
}

/// The rows of x with rows [first, first + number) of a piece, kInt8PanelRows at most.
template <class T, class Out>
void tile_panel(const CodedRows& piece, int64_t first, int64_t number, const Int8Strips& x, void* panel, const T* bias,
                bool add, Out* y, int64_t y_stride) {
  const int64_t stretches = ceil_div(x.k, kGroupedCodes), strips = ceil_div(x.rows, kTileRows);
  const auto* const of_x = static_cast<const XGroup*>(x.strips);
  auto* const w = static_cast<WGroup*>(panel);
  TypeOfRows type;
  for (int64_t r = 0; r < number; r += kTileRows)
    type = arrange_rows(piece, first + r, smaller(kTileRows, number - r), x.k, w + r / kTileRows * 8 * stretches);
  const auto multiply = type.by_16 ? (type.has_leasts ? multiply_tiles<true, true> : multiply_tiles<true, false>)
                                   : (type.has_leasts ? multiply_tiles<false, true> : multiply_tiles<false, false>);
  const Int8TileState state(type.by_16 ? 16 : 32);
  for (int64_t i = 0; i < strips; ++i) {
    const int64_t row = i * kTileRows, rows = smaller(kTileRows, x.rows - row);
    alignas(64) float sums[kTileRows * kInt8PanelRows];
    Out* const to = y + row * y_stride;
    for (int64_t r = 0; r < number; r += kTileRows) {
      for (int64_t j = 0; j < rows; ++j) __builtin_prefetch(to + j * y_stride + r, 1);
      multiply(of_x + i * 8 * stretches, w + r / kTileRows * 8 * stretches, stretches, sums + r, kInt8PanelRows);
    }
    finish(sums, kInt8PanelRows, rows, number, bias, add, to, y_stride);
  }
}

#endif

}  // namespace

const CodedInt8Table coded_int8_table = {
    .f32 = coded_int8<float, float>,
    .bf16 = coded_int8<bf16, bf16>,
    .bf16_to_f32 = coded_int8<bf16, float>,
#if defined(__AMX_INT8__)
    .tiles = {.needs_sums = needs_sums,
              .round_f32 = round_strip<float>,
              .round_bf16 = round_strip<bf16>,
              .f32 = tile_panel<float, float>,
              .bf16 = tile_panel<bf16, bf16>,
              .bf16_to_f32 = tile_panel<bf16, float>},
#endif
};

}  // namespace tern::TERN_ISA_NAMESPACE
