#pragma once
// Coded weights unpacked to small integers, scales and offsets. The int8 products (coded_int8.h) read these instead of decoded numbers.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/coded_rows.h"

namespace tern {

constexpr int64_t kGroupedCodes = 256;
/// 256 consecutive numbers of a row: number i is scales[i/16]·codes[i] + leasts[i/16], in exact arithmetic. Some types subtract a constant
/// from each stored code before they scale it (such as Q4_0 8, Q5_0 16, Q6_K 32); `codes` holds these differences.
struct CodeGroups {
  int8_t codes[kGroupedCodes];
  float scales[kGroupedCodes / 16], leasts[kGroupedCodes / 16];
  bool has_leasts = false;  // false: leasts are zero, and are not added
  bool by_16 = false;       // true: a scale for each 16 numbers; false: the two scales of each 32 are equal
};

/// Whether a type's numbers are int8 codes times a scale, perhaps plus an offset. Types with learned tables are included: their tables hold
/// int8. Dense types, NF4 and NF4_1 are not, nor are the IQ types of 2 and 3 bits, whose codes are points of a lattice.
bool has_code_groups(WeightType);
/// Unpacks `blocks`, whole blocks of at most 256 numbers together. In `out`, codes, scales and leasts behind the last block become zero.
/// Scales and leasts are computed and rounded as in the type's decoder.
/// The same bits under every instruction set.
/// `row`: for a type with learned tables. Errors  bug: a type without groups, sizes or tables that do not match.
void code_groups(WeightType, std::span<const std::byte> blocks, CodeGroups& out, const RowCodebook& row = {});

}  // namespace tern
