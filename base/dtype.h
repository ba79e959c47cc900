#pragma once
// Element types. Conversions between them are explicit; nothing is cast implicitly.

#include <bit>
#include <cstdint>
#include <string_view>

namespace tern {

enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, i16, u16, i8, u8, boolean };

constexpr int64_t size_of(DType t) {
  switch (t) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
    case DType::f16:
    case DType::i16:
    case DType::u16:
      return 2;
    case DType::i8:
    case DType::u8:
    case DType::boolean:
      return 1;
  }
  return 0;
}

/// "f32", "bf16", …: the names in --dtype and in tern's files.
std::string_view name_of(DType);
/// The inverse of name_of. Also takes Hugging Face's "float32", "bfloat16", "float16", "float64". Errors: usage; the message
/// lists the known names.
DType dtype_from_name(std::string_view);

/// bfloat16: the upper half of an f32. C++ has no arithmetic on it.
struct bf16 {
  uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

/// IEEE half precision, for storage only: nothing is computed in it.
struct f16 {
  uint16_t bits;
  friend bool operator==(f16, f16) = default;
};

inline float to_float(float x) { return x; }
inline float to_float(bf16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

/// Round to nearest, ties to even; NaN stays NaN (quiet), as PyTorch and AVX-512 BF16 do.
inline bf16 to_bf16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((u >> 16) | 0x40u)};
  return {static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16)};
}

float to_float(f16);
f16 to_f16(float);  // round to nearest, ties to even

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::i16;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::u16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};

}  // namespace tern
