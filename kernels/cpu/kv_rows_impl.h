#pragma once
// Decodes rows of a cache to numbers of T, for attention_isa.cpp, with the bits of read_kv_row (kv_rows.h) under every instruction set.
// Plain loops over bytes, which compilers vectorize.

#include <cstdint>

#include "base/kv_type.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

inline void put(float x, float* out) { *out = x; }
inline void put(float x, bf16* out) { *out = to_bf16(x); }
inline float bf16_at(const uint8_t* at) {
  bf16 x;
  __builtin_memcpy(&x, at, sizeof x);
  return to_float(x);
}

template <class T>
inline void decode_kv_row(KvType type, const uint8_t* row, int64_t numbers, T* __restrict out) {
  if (type == KvType::bf16) {
    for (int64_t i = 0; i < numbers; ++i) put(bf16_at(row + 2 * i), out + i);
    return;
  }
  const float scale = bf16_at(row);
  const uint8_t* __restrict codes = row + 2;
  if (type == KvType::q8) {
    for (int64_t i = 0; i < numbers; ++i) put(scale * static_cast<float>(static_cast<int8_t>(codes[i])), out + i);
    return;
  }
  const int64_t half = (numbers + 1) / 2;
  for (int64_t i = 0; i < half; ++i) put(scale * static_cast<float>((codes[i] & 15) - 8), out + i);
  for (int64_t i = half; i < numbers; ++i) put(scale * static_cast<float>((codes[i - half] >> 4) - 8), out + i);
}

/// Decodes `count` rows of keys or values into scratch, `stride` numbers apart. decoded[i] points at row i, or is null where rows[i] is null.
template <class T>
inline void decode_kv_rows(KvType type, const uint8_t* const* rows, int64_t count, int64_t numbers, int64_t stride,
                           T* scratch, const T** decoded) {
  for (int64_t i = 0; i < count; ++i, scratch += stride) {
    decoded[i] = rows[i] ? scratch : nullptr;
    if (rows[i]) decode_kv_row(type, rows[i], numbers, scratch);
  }
}

}  // namespace
}  // namespace tern::TERN_ISA_NAMESPACE
