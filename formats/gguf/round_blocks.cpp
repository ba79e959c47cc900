#include "formats/gguf/round_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "base/dtype.h"
#include "base/error.h"

namespace tern {
namespace {

constexpr size_t kBlock = 32;
using Block = std::span<const float, kBlock>;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Rounding {
  WeightType type;
  Block x;
  std::string_view tensor;
};

void put_half(std::string& out, const Rounding& r, float value) {
  const f16 stored = to_f16(value);
  if (!std::isfinite(to_float(stored)))
    throw Error(ErrorKind::bad_file, "write_gguf: tensor '{}' holds {}, beyond {}'s range; write it as f32", r.tensor,
                *std::ranges::max_element(r.x, {}, [](float v) { return std::fabs(v); }), name_of(r.type));
  put(out, stored.bits);
}

// 0 where a block is so small that 1/d overflows: its scale is 0 as f16 in any case.
float inverse_of(float d) {
  const float inverse = d == 0 ? 0.0f : 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

uint8_t clipped(float code, int most) { return static_cast<uint8_t>(std::clamp(static_cast<int>(code), 0, most)); }

// Low nibbles are the first 16 numbers, high ones the others; fifth bits, if any, stand before, number i at bit i.
void put_codes(std::string& out, const uint8_t (&q)[kBlock], bool fifth) {
  if (fifth) {
    uint32_t high = 0;
    for (size_t i = 0; i < kBlock; ++i) high |= static_cast<uint32_t>(q[i] >> 4 & 1) << i;
    put(out, high);
  }
  for (size_t i = 0; i < kBlock / 2; ++i) put(out, static_cast<uint8_t>((q[i] & 15) | (q[i + 16] & 15) << 4));
}

void put_q8(std::string& out, const Rounding& r) {
  float most = 0;
  for (const float v : r.x) most = std::max(most, std::fabs(v));
  const float d = most / 127.0f, inverse = inverse_of(d);
  put_half(out, r, d);
  for (const float v : r.x) put(out, static_cast<int8_t>(std::round(v * inverse)));  // half away from zero
}

// Codes 0 to 2·zero − 1 for −zero to zero − 1.
void put_signed(std::string& out, const Rounding& r, int zero) {
  const float most = *std::ranges::max_element(r.x, {}, [](float v) { return std::fabs(v); });
  const float d = most / static_cast<float>(-zero), inverse = inverse_of(d);
  put_half(out, r, d);
  uint8_t q[kBlock];
  for (size_t i = 0; i < kBlock; ++i)
    q[i] = clipped(r.x[i] * inverse + (static_cast<float>(zero) + 0.5f), 2 * zero - 1);
  put_codes(out, q, zero == 16);
}

// Codes 0 to `most` above the smallest number.
void put_above_least(std::string& out, const Rounding& r, int most) {
  const auto [least, largest] = std::ranges::minmax(r.x);
  const float d = (largest - least) / static_cast<float>(most), inverse = inverse_of(d);
  put_half(out, r, d);
  put_half(out, r, least);
  uint8_t q[kBlock];
  for (size_t i = 0; i < kBlock; ++i) q[i] = clipped((r.x[i] - least) * inverse + 0.5f, most);
  put_codes(out, q, most == 31);
}

void round_block(std::string& out, const Rounding& r) {
  for (const float v : r.x)
    if (!std::isfinite(v))
      throw Error(ErrorKind::bad_file, "write_gguf: tensor '{}' holds {}, which {} cannot; write it as f32", r.tensor,
                  v, name_of(r.type));
  switch (r.type) {
    case WeightType::q8_0:
      return put_q8(out, r);
    case WeightType::q5_1:
      return put_above_least(out, r, 31);
    case WeightType::q5_0:
      return put_signed(out, r, 16);
    case WeightType::q4_1:
      return put_above_least(out, r, 15);
    default:
      return put_signed(out, r, 8);
  }
}

constexpr WeightType kRounded[] = {WeightType::f32,  WeightType::f16,  WeightType::bf16, WeightType::q8_0,
                                   WeightType::q5_1, WeightType::q5_0, WeightType::q4_1, WeightType::q4_0};

}  // namespace

bool rounds_to(WeightType type) { return std::ranges::find(kRounded, type) != std::end(kRounded); }

std::string names_that_round() {
  std::string names;
  for (const WeightType type : kRounded) names += fmt::format("{}{}", names.empty() ? "" : ", ", name_of(type));
  return names;
}

void round_blocks(WeightType type, std::span<const float> x, std::string_view tensor, std::string& out) {
  TERN_CHECK(rounds_to(type), "round_blocks: {}", name_of(type));
  switch (type) {
    case WeightType::f32:
      for (const float v : x) put(out, v);
      return;
    case WeightType::f16:
      for (const float v : x) put(out, to_f16(v).bits);
      return;
    case WeightType::bf16:
      for (const float v : x) put(out, to_bf16(v).bits);
      return;
    default:
      break;
  }
  TERN_CHECK(x.size() % kBlock == 0, "round_blocks: {} numbers of {}", x.size(), name_of(type));
  for (size_t i = 0; i < x.size(); i += kBlock) round_block(out, {type, x.subspan(i).first<kBlock>(), tensor});
}

}  // namespace tern
