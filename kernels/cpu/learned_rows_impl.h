#pragma once
// Dot products of rows of learned codes (learned_codes.h), two at a time, and up to eight rounded rows of x, with the codes unpacked in registers
// (AVX-512 with VNNI and VBMI). Only for *_isa.cpp files. A stretch is 256 numbers, groups g = 0 … 7 of 32. Of a vector's 16 elements of four bytes, element 8h + g has
// four consecutive numbers of group g. So an element adds up products of its group alone, and the sums of two rows fill one vector.

#include "kernels/cpu/coded_rows_impl.h"
#include "kernels/cpu/row_dots_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

/// sums[r·sums_stride + i] = the product of row first + i of a piece with row r of x, which begins at x + r·x_stride; for i < count, r < rows.
using LearnedDots = void (*)(const CodedRows& piece, int64_t first, int64_t count, int64_t k, const Rounded* x,
                             int64_t x_stride, int64_t rows, float* sums, int64_t sums_stride);

#if defined(__AVX512VBMI__) && defined(__AVX512VNNI__)

/// Where Rounded::by_elements has the codes [4·four, 4·four + 4) of a group.
constexpr int64_t place_of_four(int64_t group, int64_t four) { return 64 * (four / 2) + 4 * (8 * (four % 2) + group); }

/// A stretch's numbers: byte b of element 8h + g of of[j] is number 8j + 4h + b of group g, as DotsLearned::numbers has it (128 added). first: in
/// all bytes of these elements the first byte of group g's block.
struct LearnedStretch {
  Codes of[4], first;
};

template <int kBits>
struct LearnedRows {
  using Dots = DotsLearned<kBits>;
  static constexpr int64_t kBytes = Dots::kBytes, kStretch = 8 * kBytes;

  static Codes looked_up(Codes at, Codes numbers) { return _mm512_maskz_permutexvar_epi8(~__mmask64{0}, at, numbers); }

  /// The place in a stretch that `place` gives byte i of a vector: place(g, b) for byte b of element g, place(g, 4 + b) for that of element 8 + g.
  template <class Place>
  static constexpr int64_t place_of_byte(const Place& place, int64_t i) {
    return place(i / 4 % 8, i % 4 + i / 32 * 4);
  }
  // Such places: of the block's first byte; of its bytes from kFrom on; of LC3's upper bits.
  static constexpr int64_t head(int64_t g, int64_t) { return g * kBytes; }
  template <int64_t kFrom>
  static constexpr int64_t after(int64_t g, int64_t i) {
    return g * kBytes + kFrom + i;
  }
  static constexpr int64_t upper(int64_t g, int64_t i) { return g * kBytes + 9 + i % 4; }

  /// The bytes [kBegin, kBegin + kLength) of a stretch in two vectors.
  template <int64_t kBegin, int64_t kLength>
  struct Window {
    static constexpr int64_t kSecond = kBegin + kLength - 64;
    static_assert(kBegin >= 0 && kLength > 64 && kLength <= 128 && kBegin + kLength <= kStretch);
    Codes low, high;
    explicit Window(const uint8_t* stretch) : low(load_64(stretch + kBegin)), high(load_64(stretch + kSecond)) {}
    template <class Place>
    static constexpr VectorBytes places(const Place& place) {
      VectorBytes v = {};
      for (int64_t i = 0; i < 64; ++i) {
        const int64_t byte = place_of_byte(place, i);
        if (byte < kBegin || byte >= kBegin + kLength) __builtin_unreachable();  // an error of compilation
        v.at[i] = static_cast<uint8_t>(byte < kBegin + 64 ? byte - kBegin : byte - kSecond + 64);
      }
      return v;
    }
    // By asm, or compilers would load again for each use.
    Codes at(const VectorBytes& places) const {
      Codes bytes = low;
      asm("vpermt2b %1, %2, %0" : "+v"(bytes) : "v"(high), "v"(load_vector(places)));
      return bytes;
    }
  };

  /// Few bytes of a stretch in one vector: those below 64 at their places, later ones kBack places earlier, where nothing is needed. One masked load
  /// takes one operation and each permutation of it another; one of a Window takes three.
  template <int64_t kBack>
  struct Merged {
    uint64_t moved = 0;
    template <class... Place>
    static constexpr Merged of(const Place&... place) {
      Merged m;
      const auto add = [&](const auto& each) {
        for (int64_t i = 0; i < 64; ++i)
          if (const int64_t byte = place_of_byte(each, i); byte >= 64) m.moved |= uint64_t{1} << (byte - kBack);
      };
      (add(place), ...);
      return m;
    }
    template <class Place>
    constexpr VectorBytes places(const Place& place) const {
      VectorBytes v = {};
      for (int64_t i = 0; i < 64; ++i) {
        const int64_t byte = place_of_byte(place, i), at = byte < 64 ? byte : byte - kBack;
        const bool is_moved = (moved >> at & 1) != 0;
        if (byte >= kStretch || at >= 64 || is_moved != (byte >= 64))
          __builtin_unreachable();  // an error of compilation
        v.at[i] = static_cast<uint8_t>(at);
      }
      return v;
    }
    Codes read(Codes first_64, const uint8_t* stretch) const {
      return moved == 0 ? first_64 : (Codes)_mm512_mask_loadu_epi8(first_64, moved, stretch + kBack);
    }
  };
  // Codes of two bits are looked up where they lie, for two of the four j at bits 2 and 3 of an index, for the others at bits 4 and 5; LC3's upper
  // bit is then bit 4, or bit 3. Other bits may hold anything: numbers repeat.
  static constexpr int64_t upper_at(int64_t j) { return j < 2 ? 4 : 3; }
  /// For each j: the bits of two elements from which byte b of element 8h + g takes eight, so that the bit of number 8j + 4h + b is its bit upper_at(j).
  struct FourVectors {
    VectorBytes of[4];
  };
  static constexpr FourVectors to_upper() {
    FourVectors v = {};
    for (int64_t j = 0; j < 4; ++j)
      for (int64_t i = 0; i < 64; ++i)
        v.of[j].at[i] = static_cast<uint8_t>((i / 4 % 2 * 32 + 8 * j + i / 32 * 4 + i % 4 - upper_at(j)) & 63);
    return v;
  }
  /// The numbers of all tables: as DotsLearned::numbers has them, and for codes at bits 4 and 5.
  struct Numbers {
    Codes low, high;
    explicit Numbers(const int8_t* tables) : low(Dots::numbers({tables, 0})), high(low) {
      static constexpr VectorBytes kPlaces = [] {
        VectorBytes v = {};
        for (int i = 0; i < 64; ++i) v.at[i] = static_cast<uint8_t>(i % 4 + i / 16 * 4 + i / 8 % 2 * 16);
        return v;
      }();
      if constexpr (kBits != 4) high = looked_up(load_vector(kPlaces), low);
    }
  };
  using Heads = Merged<kBits == 4 ? 60 : kBits == 3 ? 45 : 0>;
  static constexpr Heads merged() {
    if constexpr (kBits == 3)
      return Heads::of(head, upper);
    else
      return Heads::of(head);
  }
  static constexpr Heads kMerged = merged();

  static LearnedStretch unpacked(const uint8_t* stretch, const Numbers& numbers) {
    LearnedStretch w;
    using All = Window<0, kBits == 4 ? 128 : kStretch>;
    static constexpr VectorBytes kCodes = All::places(after<1>), kFirsts = kMerged.places(head);
    const All at(stretch);
    const Codes all = at.at(kCodes), heads = kMerged.read(at.low, stretch);
    w.first = looked_up(load_vector(kFirsts), heads);
    if constexpr (kBits == 4) {
      using Second = Window<8, 128>;
      static constexpr VectorBytes kMore = Second::places(after<9>);
      const Codes table = shifted_left(w.first, 4), codes[2] = {all, Second(stretch).at(kMore)};
      for (int half = 0; half < 2; ++half) {
        w.of[half] = looked_up(Dots::chosen(15, codes[half], table), numbers.low);
        w.of[2 + half] = looked_up(Dots::chosen(15, shifted(codes[half], 4), table), numbers.low);
      }
    } else {
      // The code of number 8j + i: bits 2j and 2j + 1 of byte i.
      Codes codes[4] = {shifted_left(all, 2), all, all, shifted(all, 2)};
      for (int j = 0; j < 4; ++j) codes[j] = Dots::chosen(j < 2 ? 12 : 48, codes[j], w.first);
      if constexpr (kBits == 3) {
        static constexpr VectorBytes kUppers = kMerged.places(upper);
        static constexpr FourVectors kToUpper = to_upper();
        const Codes words = looked_up(load_vector(kUppers), heads);  // bit n of an element: of number n
        for (int j = 0; j < 4; ++j) {
          const Codes bits = _mm512_maskz_multishift_epi64_epi8(~__mmask64{0}, load_vector(kToUpper.of[j]), words);
          codes[j] = Dots::chosen(1 << upper_at(j), bits, codes[j]);
        }
      }
      for (int j = 0; j < 4; ++j) w.of[j] = looked_up(codes[j], j < 2 ? numbers.low : numbers.high);
    }
    return w;
  }

  /// The scales of the groups of two rows, those of the second behind those of the first; zeros behind the rows' ends.
  static __m512 scales(const LearnedStretch& a, const LearnedStretch& b, __m512 of_rows, __mmask16 there) {
    const __m512i first = _mm512_mask_mov_epi32(a.first, 0xff00, b.first);
    const __m512i which = (__m512i)((VecUint)first >> 2);  // of its bits five count
    const __m512 of =
        _mm512_maskz_permutex2var_ps(0xffff, _mm512_loadu_ps(kBlockScales), which, _mm512_loadu_ps(kBlockScales + 16));
    const __m512i sign = _mm512_set1_epi32(static_cast<int>(0x80000000u));  // of the element, which is the byte's
    const __m512 with_sign = (__m512)_mm512_ternarylogic_epi32((__m512i)of, first, sign, 0x78);  // of ^ (first & sign)
    return _mm512_maskz_mul_ps(there, of_rows, with_sign);
  }
};

/// The products of a stretch with a stretch of x, by elements; the two elements of a group are still to be added up.
inline Codes products(const LearnedStretch& w, const Rounded& x) {
  Codes sums = _mm512_zextsi256_si512((__m256i)x.less);
  for (int j = 0; j < 4; ++j) sums = _mm512_dpbusd_epi32(sums, w.of[j], load_codes(x.by_elements + 64 * j));
  return sums;
}

/// kMany: for any number of rows of x up to kDotRows; else for one. Bits: those of row_dots.
template <int kBits, bool kMany>
void learned_dots(const CodedRows& piece, int64_t row, int64_t count, int64_t k, const Rounded* x, int64_t x_stride,
                  int64_t rows, float* sums, int64_t sums_stride) {
  using Type = LearnedRows<kBits>;
  constexpr int64_t kStretch = Type::kStretch;
  alignas(64) uint8_t last[2][kStretch];  // the last stretches if they are not whole, then zeros
  const int64_t header = decode_table.of[static_cast<int>(piece.type)].row_header_bytes;
  const int64_t row_bytes = header + k / 32 * Type::kBytes;
  const typename Type::Numbers numbers(piece.tables);
  for (int64_t i = 0; i < count; i += 2) {  // the last row alone is multiplied twice
    const int64_t other = i + 1 < count ? i + 1 : i;
    const uint8_t *first = piece.bytes + place_of_row(piece, row + i) * row_bytes,
                  *second = piece.bytes + place_of_row(piece, row + other) * row_bytes;
    const __m512 of_rows = _mm512_mask_mov_ps(_mm512_set1_ps(to_float(number_at<bf16>(first))), 0xff00,
                                              _mm512_set1_ps(to_float(number_at<bf16>(second))));
    first += header, second += header;
    __m512 chains[kMany ? kDotRows : 1] = {};  // eight of the first row, then eight of the second
    const Rounded* stretch = x;
    for (int64_t groups = k / 32; groups > 0; groups -= 8, first += kStretch, second += kStretch, ++stretch) {
      __mmask16 there = 0xffff;
      if (groups < 8) {
        there = static_cast<__mmask16>(((1 << groups) - 1) * 0x101);
        __builtin_memset(last, 0, sizeof last);
        __builtin_memcpy(last[0], first, static_cast<size_t>(groups * Type::kBytes));
        __builtin_memcpy(last[1], second, static_cast<size_t>(groups * Type::kBytes));
        first = last[0], second = last[1];
      }
      prefetch_ahead<kStretch>(first), prefetch_ahead<kStretch>(second);
      // For one row of x a stretch is multiplied before the next is unpacked, as registers are few.
      const LearnedStretch a = Type::unpacked(first, numbers);
      Codes of_a = kMany ? Codes{} : products(a, *stretch);
      const LearnedStretch b = Type::unpacked(second, numbers);
      const __m512 scales = Type::scales(a, b, of_rows, there);
      const Rounded* of_x = stretch;
      for (int64_t r = 0; r < (kMany ? rows : 1); ++r, of_x += x_stride) {
        if (kMany) of_a = products(a, *of_x);
        const Codes of_b = products(b, *of_x);
        const VecInt outer = (VecInt)_mm512_mask_mov_epi32(of_a, 0xff00, of_b);
        const VecInt both = outer + (VecInt)_mm512_maskz_shuffle_i64x2(0xff, of_a, of_b, 0x4e);
        const __m512 scaled = scales * _mm512_maskz_broadcast_f32x8(0xffff, (__m256)of_x->scales);
        chains[r] = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xffff, (__m512i)both), scaled, chains[r]);
      }
    }
    for (int64_t r = 0; r < (kMany ? rows : 1); ++r) {
      Eight of_row[2];
      __builtin_memcpy(of_row, &chains[r], 64);
      sums[r * sums_stride + i] = sum_of_chains(of_row[0]);
      sums[r * sums_stride + other] = sum_of_chains(of_row[1]);
    }
  }
}

template <int kBits>
constexpr LearnedDots kLearnedDots[2] = {learned_dots<kBits, false>, learned_dots<kBits, true>};
/// The LearnedDots of a type, for one row of x and for more. nullptr: the type has none.
inline const LearnedDots* learned_dots_of(WeightType type) {
  switch (type) {
    case WeightType::lc4:
      return kLearnedDots<4>;
    case WeightType::lc3:
      return kLearnedDots<3>;
    case WeightType::lc2:
      return kLearnedDots<2>;
    default:
      return nullptr;
  }
}

#else

inline const LearnedDots* learned_dots_of(WeightType) { return nullptr; }

#endif

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
