#include "base/dtype.h"

#include <array>
#include <utility>

#include "base/error.h"

namespace tern {
namespace {
constexpr std::array<std::pair<DType, std::string_view>, 11> kNames = {{{DType::f64, "f64"},
                                                                        {DType::f32, "f32"},
                                                                        {DType::bf16, "bf16"},
                                                                        {DType::f16, "f16"},
                                                                        {DType::i64, "i64"},
                                                                        {DType::i32, "i32"},
                                                                        {DType::i16, "i16"},
                                                                        {DType::u16, "u16"},
                                                                        {DType::i8, "i8"},
                                                                        {DType::u8, "u8"},
                                                                        {DType::boolean, "boolean"}}};
}  // namespace

std::string_view name_of(DType t) {
  for (const auto& [type, name] : kNames)
    if (type == t) return name;
  return "unknown";
}

DType dtype_from_name(std::string_view name) {
  for (const auto& [type, known] : kNames)
    if (known == name) return type;
  if (name == "float32") return DType::f32;
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  if (name == "float64") return DType::f64;
  throw Error(ErrorKind::usage, "dtype '{}' is not known; use f32, bf16, f16 or f64", name);
}

float to_float(f16 x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t exponent = (x.bits >> 10) & 31u, mantissa = x.bits & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent != 0) return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
  const float subnormal = static_cast<float>(mantissa) * 0x1p-24f;  // exact
  return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(subnormal));
}

f16 to_f16(float x) {
  const uint32_t u = std::bit_cast<uint32_t>(x);
  const auto sign = static_cast<uint16_t>((u >> 16) & 0x8000u);
  const uint32_t magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return {static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return {static_cast<uint16_t>(sign | 0x7c00u)};  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {  // below 2^-14: adding 0.5 rounds the subnormal to its 2^-24 grid in hardware
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(rounded) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace tern
