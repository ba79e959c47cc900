#include "kernels/cpu/adamw8.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

void decode(std::span<const uint8_t> codes, const std::array<float, 256>& values, float scale, float* x) {
  for (size_t i = 0; i < codes.size(); ++i) x[i] = values[codes[i]] * scale;
}

}  // namespace

void adamw8_step(const AdamwStep& step, std::span<float> gradient, std::span<float> weight, const CodedMoments& c,
                 std::span<bf16> compute) {
  const auto count = static_cast<int64_t>(weight.size()), blocks = (count + kCodeBlock - 1) / kCodeBlock;
  TERN_CHECK(gradient.size() == weight.size() && c.m.size() == weight.size() && c.v.size() == weight.size() &&
                 std::ssize(c.m_scale) == blocks && std::ssize(c.v_scale) == blocks,
             "adamw8_step: {} weights, {} gradients, codes of {} and {}, {} and {} scales", weight.size(),
             gradient.size(), c.m.size(), c.v.size(), c.m_scale.size(), c.v_scale.size());
  const std::array<float, 256>&m_values = signed_codes(), &v_values = unsigned_codes();
  parallel_ranges(blocks, 8, 1, [&](int64_t first, int64_t last) {
    float m[kCodeBlock], v[kCodeBlock];
    for (int64_t b = first; b < last; ++b) {
      const auto begin = static_cast<size_t>(b * kCodeBlock);
      const auto size = static_cast<size_t>(std::min(kCodeBlock, count - b * kCodeBlock)),
                 block = static_cast<size_t>(b);
      const std::span<uint8_t> m_codes = c.m.subspan(begin, size), v_codes = c.v.subspan(begin, size);
      decode(m_codes, m_values, c.m_scale[block], m);
      decode(v_codes, v_values, c.v_scale[block], v);
      adamw_step_and_clear(step, gradient.subspan(begin, size), weight.subspan(begin, size), {m, size}, {v, size},
                           compute.empty() ? compute : compute.subspan(begin, size));
      c.m_scale[block] = encode({m, size}, m_values, m_codes);
      c.v_scale[block] = encode({v, size}, v_values, v_codes);
    }
  });
}

}  // namespace tern
