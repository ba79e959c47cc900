#pragma once
// How a KV cache stores keys and values. A row is the numbers of one head of one token.
// Each row is encoded by itself, so its code depends neither on other tokens nor on batches or chunks.
// kernels/cpu/kv_rows.h encodes and decodes rows.

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/dtype.h"

namespace tern {

/// q8, q4: codes of 8 and 4 bits, and a scale in bf16 for each row.
enum class KvType : uint8_t { f64, f32, bf16, q8, q4 };

/// "f32", …: the names of --kv-dtype.
std::string_view name_of(KvType);
/// nullopt: no type has this name.
std::optional<KvType> kv_type_from_name(std::string_view);
/// The type of a cache that keeps numbers in the type in which they are computed; f32 for f16, which is computed in f32.
constexpr KvType kv_type_of(DType t) {
  return t == DType::f64 ? KvType::f64 : t == DType::bf16 ? KvType::bf16 : KvType::f32;
}
/// The element type of rows of numbers; nullopt for q8 and q4, which are codes.
constexpr std::optional<DType> dtype_of(KvType t) {
  if (t == KvType::q8 || t == KvType::q4) return {};
  return t == KvType::f64 ? DType::f64 : t == KvType::bf16 ? DType::bf16 : DType::f32;
}
constexpr bool is_coded(KvType t) { return !dtype_of(t); }

/// Bytes of a row of `numbers` numbers: 8, 4 or 2 for each; q8: 2 + numbers; q4: 2 + ⌈numbers/2⌉.
constexpr int64_t kv_row_bytes(KvType t, int64_t numbers) {
  switch (t) {
    case KvType::f64:
      return 8 * numbers;
    case KvType::f32:
      return 4 * numbers;
    case KvType::bf16:
      return 2 * numbers;
    case KvType::q8:
      return 2 + numbers;
    case KvType::q4:
      return 2 + (numbers + 1) / 2;
  }
  return 0;
}

}  // namespace tern
