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
  float chains[16] = {};
  for (size_t at = 0; at < x.size(); at += 32) {
    const Group32 group = rounded_group(x.subspan(at, 32));
    const CodeGroups& codes = w[at / kGroupedCodes];
    for (size_t four = 0; four < 8; ++four) {
      const size_t i = at % kGroupedCodes + 4 * four;
      int dot = 0, sum = 0;
      for (size_t j = 0; j < 4; ++j) {
        dot += codes.codes[i + j] * group.codes[4 * four + j];
        sum += group.codes[4 * four + j];
      }
      float& chain = chains[i % 64 / 4];
      const float scale = codes.scales[i / 16] * group.scale, least = codes.leasts[i / 16] * group.scale;
      const float product = static_cast<float>(dot) * scale, shift = static_cast<float>(sum) * least;
      chain += product;
      chain += shift;
    }
  }
  for (size_t apart = 8; apart > 0; apart /= 2)
    for (size_t i = 0; i < apart; ++i) chains[i] += chains[i + apart];
  return chains[0];
}

}  // namespace tern
