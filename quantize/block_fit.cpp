#include "quantize/block_fit.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "formats/gguf/block_codes.h"

namespace tern {
namespace {

using Numbers = std::span<const float>;

bool is_uniform(WeightType type) { return type == WeightType::u4 || type == WeightType::u3 || type == WeightType::u2; }

// As blocks of the type hold a scale.
float held(WeightType type, double x) {
  return is_uniform(type) ? static_cast<float>(x)
                          : to_float(to_f16(static_cast<float>(std::clamp(x, -65504.0, 65504.0))));
}

void take_nearest(const BlockLevels& levels, Numbers x, BlockCodes& block) {
  for (size_t i = 0; i < x.size(); ++i) block.codes[i] = static_cast<uint8_t>(nearest_code(block, levels, x[i]));
}

double error_of(const BlockLevels& levels, Numbers x, Numbers importance, const BlockCodes& block) {
  double error = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(number_of(block, levels, block.codes[i]));
    error += static_cast<double>(importance[i]) * d * d;
  }
  return error;
}

// Scale and least that fit the codes best; as they were where the codes say nothing about them.
void fit_to_codes(WeightType type, const BlockLevels& levels, Numbers x, Numbers importance, BlockCodes& block) {
  double w = 0, q = 0, qq = 0, y = 0, qy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double h = static_cast<double>(importance[i]), code = block.codes[i] - levels.zero,
                 value = static_cast<double>(x[i]);
    w += h, q += h * code, qq += h * code * code, y += h * value, qy += h * code * value;
  }
  if (!levels.has_least) {
    if (qq > 0) block.scale = held(type, qy / qq);
    return;
  }
  const double det = w * qq - q * q;
  if (det <= 1e-12 * w * qq || w == 0) return;
  block.scale = held(type, (w * qy - q * y) / det);
  block.least = held(type, (y - static_cast<double>(block.scale) * q) / w);
}

struct Best {
  WeightType type;
  const BlockLevels& levels;
  Numbers x, importance;
  BlockCodes block;
  double error = INFINITY;

  void consider(BlockCodes candidate) {
    take_nearest(levels, x, candidate);
    const double e = error_of(levels, x, importance, candidate);
    if (e < error) error = e, block = candidate;
  }
  void consider_fitted(BlockCodes candidate) {
    take_nearest(levels, x, candidate);
    consider(candidate);
    fit_to_codes(type, levels, x, importance, candidate);
    consider(candidate);
  }
};

// Codes as U types pack them: lower bits as pairs, the third as a plane.
void append_uniform(WeightType type, const BlockCodes& block, std::string& out) {
  const auto code = [&](size_t i) { return static_cast<unsigned>(block.codes[i]); };
  const auto put = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  for (const float x : {block.scale, block.least}) {
    char bytes[4];
    std::memcpy(bytes, &x, 4);
    out.append(bytes, 4);
  }
  if (type == WeightType::u4) {
    for (size_t i = 0; i < 32; ++i) put(code(i) | code(32 + i) << 4);
    return;
  }
  for (size_t i = 0; i < 16; ++i)
    put((code(i) & 3) | (code(16 + i) & 3) << 2 | (code(32 + i) & 3) << 4 | (code(48 + i) & 3) << 6);
  if (type == WeightType::u2) return;
  for (size_t i = 0; i < 8; ++i) {
    unsigned byte = 0;
    for (size_t j = 0; j < 8; ++j) byte |= code(8 * j + i) >> 2 << j;
    put(byte);
  }
}

}  // namespace

BlockLevels fitted_levels(WeightType type) {
  if (!is_uniform(type)) return levels_of(type);
  return {.zero = 0, .most = type == WeightType::u4 ? 15 : type == WeightType::u3 ? 7 : 3, .has_least = true};
}

void append_fitted(WeightType type, const BlockCodes& block, std::string& out) {
  is_uniform(type) ? append_uniform(type, block, out) : append_block(type, block, out);
}

float number_of(const BlockCodes& block, const BlockLevels& levels, int code) {
  const float product = block.scale * static_cast<float>(code - levels.zero);
  return levels.has_least ? product + block.least : product;
}

int nearest_code(const BlockCodes& block, const BlockLevels& levels, float x) {
  if (block.scale == 0) return levels.zero;
  const float place = (x - block.least) / block.scale + static_cast<float>(levels.zero);
  return static_cast<int>(std::clamp(std::nearbyint(place), 0.0f, static_cast<float>(levels.most)));
}

BlockCodes fit_block(WeightType type, Numbers x, Numbers importance) {
  const BlockLevels levels = fitted_levels(type);
  Best best{.type = type, .levels = levels, .x = x, .importance = importance};
  const auto [least, largest] = std::ranges::minmax(x);
  const float most = *std::ranges::max_element(x, {}, [](float v) { return std::fabs(v); });
  constexpr int kSteps = 24;
  for (int step = 0; step <= kSteps; ++step) {
    const double part = step == 0 ? 1 : 0.7 + 0.4 * step / kSteps;  // the reference's first
    if (levels.has_least) {
      const double middle = (static_cast<double>(least) + static_cast<double>(largest)) / 2,
                   reach = (static_cast<double>(largest) - static_cast<double>(least)) / 2 * part;
      best.consider_fitted(
          {.scale = held(type, 2 * reach / levels.most), .least = held(type, step == 0 ? least : middle - reach)});
    } else {
      const double steps = type == WeightType::q8_0 ? 127 : levels.zero;
      const double scale = static_cast<double>(most) / -steps * part;
      best.consider_fitted({.scale = held(type, type == WeightType::q8_0 ? -scale : scale)});
    }
  }
  return best.block;
}

}  // namespace tern
