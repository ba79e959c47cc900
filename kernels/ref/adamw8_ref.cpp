#include "kernels/ref/adamw8_ref.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/ref/optimizer_ref.h"

namespace tern {
namespace {

uint8_t nearest(double x, const std::array<float, 256>& values) {
  size_t best = 0;
  for (size_t k = 1; k < values.size(); ++k)
    if (std::abs(x - static_cast<double>(values[k])) <= std::abs(x - static_cast<double>(values[best]))) best = k;
  return static_cast<uint8_t>(best);
}

double encode_ref(std::span<const double> x, const std::array<float, 256>& values, std::span<uint8_t> codes) {
  double scale = 1e-12;
  for (const double value : x) scale = std::max(scale, std::abs(value));
  for (size_t i = 0; i < x.size(); ++i) codes[i] = nearest(x[i] / scale, values);
  return scale;
}

}  // namespace

void adamw8_step_ref(const AdamwStep& step, std::span<const double> gradient, std::span<double> weight,
                     const CodedMomentsRef& c) {
  for (size_t begin = 0, block = 0; begin < weight.size(); begin += kCodeBlock, ++block) {
    const size_t size = std::min<size_t>(kCodeBlock, weight.size() - begin);
    std::vector<double> m(size), v(size);
    for (size_t i = 0; i < size; ++i) {
      m[i] = c.m_scale[block] * static_cast<double>(signed_codes()[c.m[begin + i]]);
      v[i] = c.v_scale[block] * static_cast<double>(unsigned_codes()[c.v[begin + i]]);
    }
    adamw_step_ref(step, gradient.subspan(begin, size), weight.subspan(begin, size), m, v);
    c.m_scale[block] = encode_ref(m, signed_codes(), c.m.subspan(begin, size));
    c.v_scale[block] = encode_ref(v, unsigned_codes(), c.v.subspan(begin, size));
  }
}

}  // namespace tern
