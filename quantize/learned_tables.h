#pragma once
// The tables of a matrix that is coded as LC4, LC3 or LC2 (kernels/cpu/learned_codes.h), learned from its numbers.

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/weight_type.h"

namespace tern {

inline constexpr double kTableMost = 127;  // the largest magnitude of a table

/// Entry place_of(y) is the code whose level is nearest to y. There is one entry for each half step of y; half steps suffice,
/// as levels are whole numbers, so the border between two of them lies on a half step. Beyond ±128 the outermost entry serves.
using NearestCodes = std::array<uint8_t, 512>;
inline int place_of(float y) { return static_cast<int>(std::clamp(2 * y + 256, 0.0f, 511.0f)); }
NearestCodes nearest_codes(std::span<const int8_t> table);

/// What the byte before a group's codes says: which table, perhaps the sign, and with the bits that are left the scale, in even steps
/// of its logarithm over four octaves. The format has two bits for tables and the sign; studies compare others.
struct GroupByte {
  int table_bits = 2;  // 0 to 3
  bool has_sign = true;

  size_t num_tables() const { return size_t{1} << table_bits; }
  int scale_bits() const { return 8 - table_bits - (has_sign ? 1 : 0); }
  int steps_of_octave() const { return (1 << scale_bits()) / 4; }
  bool operator==(const GroupByte&) const = default;
};

/// Tables of `levels`, one behind the other, each ascending and with a level of magnitude 127. Alternating minimisation of
/// Σ importance·(x − s·table[code])² over groups of 32: each group takes the table, sign and scale s of least error
/// (a few s are tried, the best is fitted by least squares), then each level is fitted to the numbers that chose it.
/// At most 8192 groups are looked at, the same for the same sizes. rows (n, k), importance (k); k is a multiple of 32.
/// Order   groups are summed in their order: the same tables for any number of threads.
/// Source  ours, after LCQ (Cai et al. 2024, arXiv:2405.20973, the abstract): there a block's codebook is a sum of a few shared ones
///         with coefficients; here it is one of four, times a scale. They are fitted by Lloyd's iteration.
std::vector<int8_t> learn_tables(WeightType, std::span<const float> rows, int64_t n, int64_t k,
                                 std::span<const float> importance, const GroupByte& = {});

}  // namespace tern
