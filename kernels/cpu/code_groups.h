#pragma once
// Coded weights as integers: what the int8 products (coded_int8.h) read instead of decoded numbers.

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/cpu/coded_rows.h"

namespace tern {

constexpr int64_t kGroupedCodes = 256;
/// 256 neighbours of a row: number i is scales[i/16]·codes[i] + leasts[i/16], in real numbers. What a type subtracts from a stored
/// code before it is scaled (Q4_0 8, Q5_0 16, Q6_K 32) is subtracted here.
struct CodeGroups {
  int8_t codes[kGroupedCodes];
  float scales[kGroupedCodes / 16], leasts[kGroupedCodes / 16];
  bool has_leasts = false;  // else they are zero, and are not added
  bool by_16 = false;       // the type has a scale for each 16; else the two of each 32 are equal
};

/// Whether a type's numbers are given as small integers times a scale, plus an offset (learned tables hold integers). Not those
/// of dense types, of NF4 and NF4_1, and of the IQ types of 2 and 3 bits, whose codes are points of a lattice.
bool has_code_groups(WeightType);
/// `blocks`: whole blocks, together at most 256 numbers. Where they have fewer, the groups behind the last become
/// zero. Scales and leasts are those of the type's decoder, rounded as there.
/// The same under every instruction set.
/// `row`: for types with learned tables. Errors  bug: a type without groups, sizes that do not match.
void code_groups(WeightType, std::span<const std::byte> blocks, CodeGroups& out, const RowCodebook& row = {});

}  // namespace tern
