#include "kernels/ref/coded_int8_ref.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern {
namespace {

struct Group32 {
  int codes[32] = {};
  float scale = 0;
};

Group32 rounded_group(std::span<const float> x) {
  float most = 0;
  for (const float v : x) {
    if (!std::isfinite(v)) return {.scale = std::numeric_limits<float>::quiet_NaN()};
    most = std::max(most, std::fabs(v));
  }
  if (most < 0x1p-100f) return {};
  Group32 group{.scale = most / 127.0f};
  const float inverse = 127.0f / most;
  for (size_t i = 0; i < x.size(); ++i) group.codes[i] = static_cast<int>(std::nearbyint(x[i] * inverse));
  return group;
}

}  // namespace

float dot_int8_ref(std::span<const float> x, std::span<const CodeGroups> w) {
  float chains[8] = {};
  for (size_t at = 0; at < x.size(); at += 32) {
    const Group32 group = rounded_group(x.subspan(at, 32));
    const CodeGroups& groups = w[at / kGroupedCodes];
    const size_t g = at % kGroupedCodes / 32;
    float sums[2] = {};
    const auto add = [&](size_t begin, size_t end) {  // the numbers that have one scale
      int dot = 0, sum = 0;
      for (size_t i = begin; i < end; ++i) {
        dot += groups.codes[32 * g + i] * group.codes[i];
        sum += group.codes[i];
      }
      const float scale = groups.scales[2 * g + begin / 16] * group.scale;
      chains[g] = std::fma(static_cast<float>(dot), scale, chains[g]);
      sums[begin / 16] = group.scale * static_cast<float>(sum);
    };
    if (groups.by_16)
      add(0, 16), add(16, 32);
    else
      add(0, 32);
    if (groups.has_leasts)
      for (size_t half = 0; half < (groups.by_16 ? 2 : 1); ++half)
        chains[g] = std::fma(groups.leasts[2 * g + half], sums[half], chains[g]);
  }
  for (size_t apart = 4; apart > 0; apart /= 2)
    for (size_t i = 0; i < apart; ++i) chains[i] += chains[i + apart];
  return chains[0];
}

}  // namespace tern
