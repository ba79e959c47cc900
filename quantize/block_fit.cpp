#include "quantize/block_fit.h"

#include <algorithm>
#include <cmath>

#include "base/dtype.h"

namespace tern {
namespace {

using Numbers = std::span<const float, kBlockWeights>;

float half(double x) { return to_float(to_f16(static_cast<float>(std::clamp(x, -65504.0, 65504.0)))); }

void take_nearest(const BlockLevels& levels, Numbers x, BlockCodes& block) {
  for (size_t i = 0; i < kBlockWeights; ++i) block.codes[i] = static_cast<uint8_t>(nearest_code(block, levels, x[i]));
}

double error_of(const BlockLevels& levels, Numbers x, Numbers importance, const BlockCodes& block) {
  double error = 0;
  for (size_t i = 0; i < kBlockWeights; ++i) {
    const double d = static_cast<double>(x[i]) - static_cast<double>(number_of(block, levels, block.codes[i]));
    error += static_cast<double>(importance[i]) * d * d;
  }
  return error;
}

// Scale and least that fit the codes best; as they were where the codes say nothing about them.
void fit_to_codes(const BlockLevels& levels, Numbers x, Numbers importance, BlockCodes& block) {
  double w = 0, q = 0, qq = 0, y = 0, qy = 0;
  for (size_t i = 0; i < kBlockWeights; ++i) {
    const double h = static_cast<double>(importance[i]), code = block.codes[i] - levels.zero,
                 value = static_cast<double>(x[i]);
    w += h, q += h * code, qq += h * code * code, y += h * value, qy += h * code * value;
  }
  if (!levels.has_least) {
    if (qq > 0) block.scale = half(qy / qq);
    return;
  }
  const double det = w * qq - q * q;
  if (det <= 1e-12 * w * qq || w == 0) return;
  block.scale = half((w * qy - q * y) / det);
  block.least = half((y - static_cast<double>(block.scale) * q) / w);
}

struct Best {
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
    fit_to_codes(levels, x, importance, candidate);
    consider(candidate);
  }
};

}  // namespace

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
  const BlockLevels levels = levels_of(type);
  Best best{.levels = levels, .x = x, .importance = importance};
  const auto [least, largest] = std::ranges::minmax(x);
  const float most = *std::ranges::max_element(x, {}, [](float v) { return std::fabs(v); });
  constexpr int kSteps = 24;
  for (int step = 0; step <= kSteps; ++step) {
    const double part = step == 0 ? 1 : 0.7 + 0.4 * step / kSteps;  // the reference's first
    if (levels.has_least) {
      const double middle = (static_cast<double>(least) + static_cast<double>(largest)) / 2,
                   reach = (static_cast<double>(largest) - static_cast<double>(least)) / 2 * part;
      best.consider_fitted({.scale = half(2 * reach / levels.most), .least = half(step == 0 ? least : middle - reach)});
    } else {
      const double steps = type == WeightType::q8_0 ? 127 : levels.zero;
      const double scale = static_cast<double>(most) / -steps * part;
      best.consider_fitted({.scale = half(type == WeightType::q8_0 ? -scale : scale)});
    }
  }
  return best.block;
}

}  // namespace tern
