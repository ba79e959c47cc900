#pragma once
// Rows of the KV cache (base/kv_type.h), written and read one by one. Plain loops: the twin of kv_rows_impl.h, which attention reads rows
// with. Source: ours; q8 and q4 begin from the scales of GGUF's Q8_0 and Q4_0, with a whole row as the block.

#include <cstdint>

#include "base/kv_type.h"

namespace tern {

/// Writes `numbers` numbers x as a row of kv_row_bytes(type, numbers) bytes; T is float, bf16 or double. q8 and q4 take x in f32:
///   q8: the scale s, a bf16, then an int8 for each number: x/s to the nearest, ties to even, within ±127. s is bf16(max|x|/127) or one of the
///       next three bf16 of larger magnitude, whichever leaves the least squared error.
///   q4: s likewise from bf16(m/−8), with m the first number of the largest magnitude; then the codes x/s within −8 … 7, stored plus 8. With
///       h = ⌈numbers/2⌉, byte i behind the scale has number i in its low half and number h + i in its high half.
/// If a number is not finite, a row of codes reads as NaN throughout. If the scale rounds to 0 in bf16 (2^-134 or less), it reads as 0.
template <class T>
void write_kv_row(KvType, const T* x, int64_t numbers, uint8_t* row);
/// Reads the numbers of a row, rounded to T. Before that rounding, s·code is exact in f32.
template <class T>
void read_kv_row(KvType, const uint8_t* row, int64_t numbers, T* x);

}  // namespace tern
