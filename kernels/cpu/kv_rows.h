#pragma once
// Rows of a cache (base/kv_type.h), written and read one by one. Plain loops: the twin of kv_rows_impl.h, by which
// attention reads them. Source: ours; q8 and q4 begin from the scales of GGUF's Q8_0 and Q4_0, a row being the block.

#include <cstdint>

#include "base/kv_type.h"

namespace tern {

/// x (numbers) as a row of kv_row_bytes(type, numbers) bytes; T is float, bf16 or double. Codes are of x in f32:
///   q8: scale s = bf16(max|x|/127) or one of the next three that bf16 has, whichever leaves the least squared error, in 2
///       bytes, then an int8 each: x/s to the nearest, ties to even, within ±127.
///   q4: s likewise from bf16(m/−8), m the first number of the largest magnitude; codes x/s within −8 … 7, kept plus 8: with h = ⌈n/2⌉,
///       byte i has number i in its low half and number h + i in its high one.
/// A row of codes with a number that is not finite reads as NaN throughout; one whose scale vanishes (below 1e-38) as 0.
template <class T>
void write_kv_row(KvType, const T* x, int64_t numbers, uint8_t* row);
/// The numbers of a row, rounded to T: s·code is exact in f32.
template <class T>
void read_kv_row(KvType, const uint8_t* row, int64_t numbers, T* x);

}  // namespace tern
