#pragma once
// LC4, LC3, LC2: numbers coded by tables that were learned for their matrix. Beside its rows a matrix has four tables
// (kCodeTables, base/weight_type.h) of 2^bits int8 each. A row is its scale (bf16), then blocks of 32 numbers. A block is one byte with
// its sign, scale and choice of a table, then the codes of its numbers:
//   byte    bit 7: the sign; bits 2 to 6: i, for the block's scale kBlockScales[i] = 2^(-i/8); bits 0 and 1: which of the four tables
//   number  x = s·table[code],  s = ±(scale of the row · scale of the block), each product rounded once
//   codes   LC4: 16 bytes, low nibbles are numbers 0 to 15, high ones 16 to 31
//           LC2: 8 bytes; the bits 2j and 2j + 1 of byte i are number 8j + i
//           LC3: the lower two bits as LC2; then 4 bytes, bit n of the little-endian word is the upper bit of number n
// Bytes of a matrix (N, K): N·(2 + K/32 + K·bits/8) + 4·2^bits. Source: ours, after LCQ (Cai et al. 2024, arXiv:2405.20973, the
// abstract): the codebooks of all blocks, as rows of a matrix, have a rank of at most 4, as each is one of the four tables times a number.

#include <cstdint>

namespace tern {

inline constexpr float kBlockScales[32] = {
    1.0f,   0.917004043f, 0.840896415f, 0.771105413f,  0.707106781f,  0.648419777f,  0.594603558f,  0.545253866f,
    0.5f,   0.458502022f, 0.420448208f, 0.385552706f,  0.353553391f,  0.324209889f,  0.297301779f,  0.272626933f,
    0.25f,  0.229251011f, 0.210224104f, 0.192776353f,  0.176776695f,  0.162104944f,  0.148650889f,  0.136313467f,
    0.125f, 0.114625505f, 0.105112052f, 0.0963881766f, 0.0883883476f, 0.0810524722f, 0.0743254447f, 0.0681567333f};

}  // namespace tern
