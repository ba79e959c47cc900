#include "formats/gguf/round_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>

#include "base/bug.h"
#include "base/dtype.h"
#include "base/error.h"
#include "formats/gguf/block_codes.h"

namespace tern {
namespace {

constexpr size_t kBlock = 32;
using Block = std::span<const float, kBlock>;

template <class T>
void put_value(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

struct Rounding {
  WeightType type;
  Block x;
  std::string_view tensor;
};

float half_of(const Rounding& r, float value) {
  const float stored = to_float(to_f16(value));
  if (!std::isfinite(stored))
    throw Error(ErrorKind::bad_file, "write_gguf: tensor '{}' holds {}, beyond {}'s range; write it as f32", r.tensor,
                *std::ranges::max_element(r.x, {}, [](float v) { return std::fabs(v); }), name_of(r.type));
  return stored;
}

// 0 where a block is so small that 1/d overflows: its scale is 0 as f16 in any case.
float inverse_of(float d) {
  const float inverse = d == 0 ? 0.0f : 1.0f / d;
  return std::isfinite(inverse) ? inverse : 0.0f;
}

uint8_t clipped(float code, int most) { return static_cast<uint8_t>(std::clamp(static_cast<int>(code), 0, most)); }

BlockCodes rounded_q8(const Rounding& r) {
  float most = 0;
  for (const float v : r.x) most = std::max(most, std::fabs(v));
  const float d = most / 127.0f, inverse = inverse_of(d);
  BlockCodes block{.scale = half_of(r, d)};
  for (size_t i = 0; i < kBlock; ++i)  // half away from zero
    block.codes[i] = static_cast<uint8_t>(static_cast<int>(std::round(r.x[i] * inverse)) + 128);
  return block;
}

BlockCodes rounded_around_zero(const Rounding& r, const BlockLevels& levels) {
  const float most = *std::ranges::max_element(r.x, {}, [](float v) { return std::fabs(v); });
  const auto zero = static_cast<float>(levels.zero);
  const float d = most / -zero, inverse = inverse_of(d);
  BlockCodes block{.scale = half_of(r, d)};
  for (size_t i = 0; i < kBlock; ++i) block.codes[i] = clipped(r.x[i] * inverse + (zero + 0.5f), levels.most);
  return block;
}

BlockCodes rounded_above_least(const Rounding& r, const BlockLevels& levels) {
  const auto [least, largest] = std::ranges::minmax(r.x);
  const float d = (largest - least) / static_cast<float>(levels.most), inverse = inverse_of(d);
  BlockCodes block{.scale = half_of(r, d), .least = half_of(r, least)};
  for (size_t i = 0; i < kBlock; ++i) block.codes[i] = clipped((r.x[i] - least) * inverse + 0.5f, levels.most);
  return block;
}

void round_block(std::string& out, const Rounding& r) {
  for (const float v : r.x)
    if (!std::isfinite(v))
      throw Error(ErrorKind::bad_file, "write_gguf: tensor '{}' holds {}, which {} cannot; write it as f32", r.tensor,
                  v, name_of(r.type));
  const BlockLevels levels = levels_of(r.type);
  append_block(r.type,
               r.type == WeightType::q8_0 ? rounded_q8(r)
               : levels.has_least         ? rounded_above_least(r, levels)
                                          : rounded_around_zero(r, levels),
               out);
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
      for (const float v : x) put_value(out, v);
      return;
    case WeightType::f16:
      for (const float v : x) put_value(out, to_f16(v).bits);
      return;
    case WeightType::bf16:
      for (const float v : x) put_value(out, to_bf16(v).bits);
      return;
    default:
      break;
  }
  TERN_CHECK(x.size() % kBlock == 0, "round_blocks: {} numbers of {}", x.size(), name_of(type));
  for (size_t i = 0; i < x.size(); i += kBlock) round_block(out, {type, x.subspan(i).first<kBlock>(), tensor});
}

}  // namespace tern
