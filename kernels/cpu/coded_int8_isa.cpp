// Products of coded weights in integers (coded_int8.h says which numbers). A thread keeps kRounded blocks of x rounded. If x
// has up to kXRows rows and fits, a thread rounds x once; else it rounds for each panel of kInt8Panel rows of w. A row of w is
// multiplied as it lies (row_dots_impl.h), or its codes are unpacked 256 numbers at a time, once for all rows of x.

#include "base/rounding.h"
#include "kernels/cpu/coded_int8_table.h"
#include "kernels/cpu/coded_rows_impl.h"
#include "kernels/cpu/decode_impl.h"
#include "kernels/cpu/finish_impl.h"
#include "kernels/cpu/row_dots_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kChains = 16, kParts = kChains / kLanes;
constexpr int64_t kInt8Panel = 64;          // rows of w
constexpr int64_t kXRows = 16;              // their chains and a panel's: 64 KiB, for L2
constexpr int64_t kRounded = 128;           // of x, that a thread keeps: 16 rows of 2,048 numbers, one of 32,768
constexpr int64_t kInt8Parallel = 1 << 16;  // multiply-adds: below, starting threads costs more than it gives
constexpr int64_t kUnpacked = 8;            // rows of w at a time: what was stored in parts is not loaded whole at once
constexpr float kRoundToEven = 12582912.0f;  // 1.5·2^23: adding it rounds to an integer in the lowest bits
constexpr uint32_t kZeroBelow = 27u << 23;   // bits of 2^-100
constexpr uint32_t kInfinity = 0x7f800000u;

inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

inline uint32_t largest(VecUint v) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  __m128i most = _mm_max_epu32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));
  most = _mm_max_epu32(most, _mm_shuffle_epi32(most, 0x4e));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(most, _mm_shuffle_epi32(most, 0xb1))));
#else
  uint32_t most = 0;
  for (int lane = 0; lane < kLanes; ++lane) most = v[lane] > most ? v[lane] : most;
  return most;
#endif
}

template <class T>
void round_group(const T* x, int8_t* codes, float* scales) {
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
    scales[0] = scales[1] = amax < kZeroBelow ? 0.0f : __builtin_nanf("");
    return;
  }
  float largest_magnitude;
  __builtin_memcpy(&largest_magnitude, &amax, 4);
  const Vec inverse = splat(127.0f / largest_magnitude), even = splat(kRoundToEven);
  scales[0] = scales[1] = largest_magnitude / 127.0f;
  VecInt code[32 / kLanes];
  for (int i = 0; i < 32 / kLanes; ++i) code[i] = (VecInt)(v[i] * inverse + even) - (VecInt)even;
#if defined(__AVX2__) && !defined(__AVX512F__)
  // Packing takes the halves of its two vectors in turn: fours of codes come as 0 2 4 6 1 3 5 7.
  const __m256i first = _mm256_packs_epi32((__m256i)code[0], (__m256i)code[1]);
  const __m256i all = _mm256_packs_epi16(first, _mm256_packs_epi32((__m256i)code[2], (__m256i)code[3]));
  const __m256i fours = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), fours);
#else
  for (int i = 0; i < 32; ++i) codes[i] = static_cast<int8_t>(code[i / kLanes][i % kLanes]);
#endif
}

/// What is made of the codes of 64 neighbours, the q-th of 256.
inline void round_64(Rounded& to, int q) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  const auto* codes = reinterpret_cast<const __m256i*>(to.codes) + 2 * q;
  const auto sums = [](__m256i c) {
    return _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_set1_epi8(1), c), _mm256_set1_epi16(1));
  };
  const auto put = [](void* at, __m256i v) { _mm256_store_si256(static_cast<__m256i*>(at), v); };
  const __m256i a = _mm256_load_si256(codes), b = _mm256_load_si256(codes + 1);
  const __m256i outer = _mm256_permute2x128_si256(a, b, 0x20), inner = _mm256_permute2x128_si256(a, b, 0x31);
  put(to.paired + 64 * q, outer), put(to.paired + 64 * q + 32, inner);
  put(to.sums + 16 * q, sums(a)), put(to.sums + 16 * q + 8, sums(b));
  const __m256i none = _mm256_setzero_si256();
  put(to.less + 16 * q, _mm256_sub_epi32(none, _mm256_slli_epi32(sums(outer), 3)));
  put(to.less + 16 * q + 8, _mm256_sub_epi32(none, _mm256_slli_epi32(sums(inner), 3)));
#else
  for (int i = 16 * q; i < 16 * q + 16; ++i) {
    const int8_t* c = to.codes + 4 * i;
    to.sums[i] = c[0] + c[1] + c[2] + c[3];
    to.less[i] = -128 * to.sums[i];
  }
#endif
}

/// Numbers [0, count) of a row, whole groups of 32.
template <class T>
void round_row(const T* x, int64_t count, Rounded* to) {
  for (; count > 0; count -= kGroupedCodes, x += kGroupedCodes, ++to) {
    const int64_t here = smaller(count, kGroupedCodes);
    if (here < kGroupedCodes) __builtin_memset(to, 0, sizeof *to);
    for (int64_t i = 0; i < here; i += 32) {
      round_group(x + i, to->codes + i, to->scales + i / 16);
      to->scales_of_32[i / 32] = to->scales[i / 16];
    }
    for (int q = 0; q < 4; ++q) round_64(*to, q);
  }
}

/// The sums of four products of 4·kLanes codes, one in each lane.
inline VecInt dot_4(const int8_t* w, const int8_t* x, [[maybe_unused]] const int32_t* less) {
#if defined(__AVX512VNNI__)
  // The instruction takes w without sign: w + 128, and 128 times the sum of x's codes less.
  const __m512i plus_128 = _mm512_xor_si512(_mm512_loadu_si512(w), _mm512_set1_epi8(-128));
  return (VecInt)_mm512_dpbusd_epi32(_mm512_loadu_si512(less), plus_128, _mm512_loadu_si512(x));
#elif defined(__AVX512F__)
  const auto wide = [](const int8_t* at) {
    return _mm512_maskz_cvtepi8_epi16(~0u, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  };
  const auto fours = [&](int i) {  // sums of two side by side, added; the lower half of each 64 bits
    const __m512i twos = _mm512_madd_epi16(wide(w + i), wide(x + i));
    return _mm512_maskz_cvtepi64_epi32(0xff, (__m512i)((VecInt)twos + (VecInt)((__v8du)twos >> 32)));
  };
  return (VecInt)_mm512_maskz_inserti64x4(0xff, _mm512_maskz_broadcast_i64x4(0xff, fours(0)), fours(32), 1);
#elif defined(__AVX2__)
  // |w|, of up to 128, times x with w's sign: two products of such and of x's codes, of up to 127, fit 16 bits.
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  const __m256i twos = _mm256_maddubs_epi16(_mm256_abs_epi8(a), _mm256_sign_epi8(b, a));
  return (VecInt)_mm256_madd_epi16(twos, _mm256_set1_epi16(1));
#else
  VecInt sums = {};
  for (int lane = 0; lane < kLanes; ++lane)
    for (int i = 0; i < 4; ++i) sums[lane] += w[4 * lane + i] * x[4 * lane + i];
  return sums;
#endif
}

/// The scale of each chain of a part: four chains share one of 16 numbers.
inline Vec of_chains(const float* scales, [[maybe_unused]] int part) {
#if defined(__AVX512F__)
  const __m512i places = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m512 four = _mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(scales));
  return (Vec)_mm512_maskz_permutexvar_ps(0xffff, places, four);
#elif defined(__AVX2__)
  return (Vec)_mm256_set_m128(_mm_set1_ps(scales[2 * part + 1]), _mm_set1_ps(scales[2 * part]));
#else
  return splat(scales[part]);
#endif
}

/// chains += the products of `count` numbers of a row of w and of x.
template <bool kLeasts>
inline void add_products(const CodeGroups& w, const Rounded& x, int64_t count, float* chains) {
  alignas(64) float scales[16], leasts[16];
  for (int i = 0; i < 16; i += kLanes) {
    store(scales + i, load(w.scales + i) * load(x.scales + i));
    if (kLeasts) store(leasts + i, load(w.leasts + i) * load(x.scales + i));
  }
  Vec c[kParts];
  for (int p = 0; p < kParts; ++p) c[p] = load(chains + p * kLanes);
  for (int64_t i = 0; i < count; i += 64)
    for (int p = 0; p < kParts; ++p) {
      const int64_t at = i + 4 * p * kLanes;
      const VecInt dot = dot_4(w.codes + at, x.codes + at, x.less + at / 4);
      c[p] = c[p] + floats_of(dot) * of_chains(scales + i / 16, p);
      if (!kLeasts) continue;
      VecInt sums;
      __builtin_memcpy(&sums, x.sums + at / 4, sizeof sums);
      c[p] = c[p] + floats_of(sums) * of_chains(leasts + i / 16, p);
    }
  for (int p = 0; p < kParts; ++p) store(chains + p * kLanes, c[p]);
}

inline float sum_of_chains(const float* chains) {
  Vec c[kParts];
  for (int p = 0; p < kParts; ++p) c[p] = load(chains + p * kLanes);
  for (int apart = kParts / 2; apart > 0; apart /= 2)
    for (int p = 0; p < apart; ++p) c[p] = c[p] + c[p + apart];
  return sum(c[0]);
}

// Of the types that are not named, zeros are read: right, and slower.
constexpr bool has_leasts(WeightType type) {
  switch (type) {
    case WeightType::q8_0:
    case WeightType::q4_0:
    case WeightType::q5_0:
    case WeightType::iq4_nl:
    case WeightType::mxfp4:
    case WeightType::iq4_xs:
    case WeightType::q3_k:
    case WeightType::q6_k:
    case WeightType::lc4:
    case WeightType::lc3:
    case WeightType::lc2:
      return false;
    default:
      return true;
  }
}

/// Numbers [begin, begin + count) of a row, and zeros up to whole 64.
inline void unpack(const CodedRow& w, int64_t begin, int64_t count, CodeGroups& to) {
  const BlockDecoder& type = *w.decoder;
  const auto id = &type - decode_table.of;
  const uint8_t* at = w.at + begin / type.block_elements * type.block_bytes;
  if (code_groups_table.of[id])
    code_groups_table.of[id](at, count / type.block_elements, to);
  else
    code_groups_table.of_learned[id](at, count / type.block_elements, w.codebook, to);
  if (count % 64 == 0) return;
  __builtin_memset(to.codes + count, 0, 32);
  for (int64_t i = count / 16; i < count / 16 + 2; ++i) to.scales[i] = to.leasts[i] = 0;
}

/// Rounded rows of x that are x_stride apart, and where in a row of w their numbers begin and how many they are.
struct RoundedRows {
  const Rounded* x;
  int64_t x_stride, rows, at, count;
};

/// chains (rows of x; kInt8Panel; kChains) += the products with `number` rows of a piece from `first` on, unpacked before.
void add_unpacked(const CodedRows& piece, int64_t first, int64_t number, int64_t k, const RoundedRows& x,
                  float* chains) {
  alignas(64) CodeGroups groups[kUnpacked] = {};
  CodedRow w[kUnpacked];
  for (int64_t r = 0; r < number; ++r) w[r] = coded_row(piece, first + r, k);
  const bool leasts = has_leasts(piece.type);
  const int64_t follow = smaller(number, piece.count - first - number);  // rows that come next
  for (int64_t k0 = 0; k0 < x.count; k0 += kGroupedCodes) {
    const int64_t here = smaller(kGroupedCodes, x.count - k0), next = smaller(kGroupedCodes, x.count - k0 - here);
    for (int64_t r = 0; r < number; ++r) {
      if (next > 0)
        fetch(w[r], x.at + k0 + here, next);
      else if (r < follow)
        fetch({blocks_of_row(piece, first + number + r, k), w[r].decoder, {}}, x.at, smaller(kGroupedCodes, x.count));
      unpack(w[r], x.at + k0, here, groups[r]);
    }
    for (int64_t i = 0; i < x.rows; ++i)
      for (int64_t r = 0; r < number; ++r) {
        float* of = chains + (i * kInt8Panel + r) * kChains;
        const Rounded& of_x = x.x[i * x.x_stride + k0 / kGroupedCodes];
        leasts ? add_products<true>(groups[r], of_x, here, of) : add_products<false>(groups[r], of_x, here, of);
      }
  }
}

/// The same with codes as they lie. A row is looked at when its turn comes: its scale is in memory that is not read yet.
void add_as_they_lie(const CodedRows& piece, const RowDots* dots, int64_t first, int64_t number, int64_t k,
                     const RoundedRows& x, float* chains) {
  const BlockDecoder& type = decode_table.of[static_cast<int>(piece.type)];
  const int64_t row_bytes = type.row_header_bytes + k / type.block_elements * type.block_bytes;
  const int64_t before = type.row_header_bytes + x.at / type.block_elements * type.block_bytes;
  for (int64_t r = first; r < first + number; ++r, chains += kChains) {
    const uint8_t* row = piece.bytes + place_of_row(piece, r) * row_bytes;
    RowCodebook codebook;
    if (type.decode_learned) codebook = {piece.tables, to_float(number_at<bf16>(row))};
    for (int64_t i = 0; i < x.rows; i += kDotRows)
      dots[smaller(kDotRows, x.rows - i) - 1](row + before, codebook, x.count / 32, x.x + i * x.x_stride, x.x_stride,
                                              chains + i * kInt8Panel * kChains, kInt8Panel * kChains);
  }
}

/// The same with rows [column, column + columns) of all pieces.
void add_panel(const CodedRows* piece, int64_t column, int64_t columns, int64_t k, const RoundedRows& x,
               float* chains) {
  for (; column >= piece->count; ++piece) column -= piece->count;
  for (int64_t done = 0; done < columns; ++piece, column = 0) {
    const int64_t number = smaller(columns - done, piece->count - column);
    float* of = chains + done * kChains;
    done += number;
    if (const RowDots* dots = row_dots_of(piece->type)) {
      add_as_they_lie(*piece, dots, column, number, k, x, of);
      continue;
    }
    for (int64_t r = 0; r < number; r += kUnpacked)
      add_unpacked(*piece, column + r, smaller(kUnpacked, number - r), k, x, of + r * kChains);
  }
}

template <class T, class Out>
void coded_int8(const T* x, const CodedRows* pieces, const T* bias, int64_t m, int64_t n, int64_t k, bool add, Out* y) {
  const int64_t panels = ceil_div(n, kInt8Panel), blocks = ceil_div(m, kXRows);
#pragma omp parallel if (m * n * k >= kInt8Parallel)
  {
    Rounded xs[kRounded];
    int64_t rounded_block = -1, rounded_from = -1;
#pragma omp for collapse(2) schedule(static)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t block = 0; block < blocks; ++block) {
        alignas(64) float chains[kXRows * kInt8Panel * kChains];
        alignas(64) float sums[kXRows * kInt8Panel];
        const int64_t row = block * kXRows, rows = smaller(kXRows, m - row);
        const int64_t column = p * kInt8Panel, columns = smaller(kInt8Panel, n - column);
        const int64_t x_stride = smaller(ceil_div(k, kGroupedCodes), kRounded / rows),
                      numbers = x_stride * kGroupedCodes;
        __builtin_memset(chains, 0, static_cast<size_t>(rows * kInt8Panel * kChains) * sizeof(float));
        for (int64_t k0 = 0; k0 < k; k0 += numbers) {
          const int64_t count = smaller(numbers, k - k0);
          if (rounded_block != block || rounded_from != k0)
            for (int64_t i = 0; i < rows; ++i) round_row(x + (row + i) * k + k0, count, xs + i * x_stride);
          rounded_block = block, rounded_from = k0;
          add_panel(pieces, column, columns, k, {xs, x_stride, rows, k0, count}, chains);
        }
        for (int64_t i = 0; i < rows * kInt8Panel; ++i) sums[i] = sum_of_chains(chains + i * kChains);
        finish(sums, kInt8Panel, rows, columns, bias ? bias + column : nullptr, add, y + row * n + column, n);
      }
  }
}

}  // namespace

const CodedInt8Table coded_int8_table = {
    .f32 = coded_int8<float, float>,
    .bf16 = coded_int8<bf16, bf16>,
    .bf16_to_f32 = coded_int8<bf16, float>,
};

}  // namespace tern::TERN_ISA_NAMESPACE
