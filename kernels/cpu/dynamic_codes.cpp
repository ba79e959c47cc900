#include "kernels/cpu/dynamic_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "base/error.h"

namespace tern {
namespace {

// The reference works all of this out in f32, and boundaries with one rounding; so must who wants its values.
std::array<float, 256> make_codes(bool has_sign) {
  std::array<float, 256> values{};
  size_t n = 0;
  constexpr int kExponents = 7;
  for (int e = 0; e < kExponents; ++e) {
    const int items = 1 << (has_sign ? e : e + 1);
    const float width = (1.0f - 0.1f) / static_cast<float>(items);
    const auto boundary = [&](int i) {  // of `items` equal steps from 0.1 to 1, from the nearer end
      return i < (items + 1) / 2 ? std::fma(width, static_cast<float>(i), 0.1f)
                                 : std::fma(-width, static_cast<float>(items - i), 1.0f);
    };
    for (int i = 0; i < items; ++i) {
      const float mean = (boundary(i) + boundary(i + 1)) / 2.0f;
      const float value = static_cast<float>(std::pow(10.0, e - (kExponents - 1))) * mean;
      values[n++] = value;
      if (has_sign) values[n++] = -value;
    }
  }
  values[n++] = 0, values[n++] = 1;
  TERN_CHECK(n == values.size(), "codes: {} values", n);
  std::sort(values.begin(), values.end());
  return values;
}

// Where to look for a number, by its upper 16 bits: the code of the largest value that is not above any number with these bits. Between
// the least and the greatest of them lie two values at most, as they are 2^-7 of their size apart and values 0.9/128.
class CodeSearch {
 public:
  explicit CodeSearch(const std::array<float, 256>& values) : begin_(1 << 16) {
    std::copy(values.begin(), values.end(), values_.begin());
    values_[256] = values_[257] = INFINITY;
    for (uint32_t bits = 0; bits < begin_.size(); ++bits) {
      const bool negative = bits >= 0x8000u;
      const auto least = std::bit_cast<float>(negative ? bits << 16 | 0xffffu : bits << 16);
      const auto above = std::upper_bound(values.begin(), values.end(), least);  // of a NaN: the end, never asked for
      begin_[bits] = static_cast<uint8_t>(std::max<std::ptrdiff_t>(above - values.begin() - 1, 0));
    }
  }
  uint8_t nearest(float x) const {
    int code = begin_[std::bit_cast<uint32_t>(x) >> 16];
    code += x >= values_[static_cast<size_t>(code + 1)];
    code += x >= values_[static_cast<size_t>(code + 1)];
    const int above = std::min(code + 1, 255);
    const float low = values_[static_cast<size_t>(code)], high = values_[static_cast<size_t>(above)];
    return static_cast<uint8_t>(x - low >= (high - low) * 0.5f ? above : code);
  }

 private:
  std::array<float, 258> values_;
  std::vector<uint8_t> begin_;
};
const CodeSearch& signed_search() {
  static const CodeSearch search(signed_codes());
  return search;
}
const CodeSearch& unsigned_search() {
  static const CodeSearch search(unsigned_codes());
  return search;
}

}  // namespace

const std::array<float, 256>& signed_codes() {
  static const std::array<float, 256> values = make_codes(true);
  return values;
}
const std::array<float, 256>& unsigned_codes() {
  static const std::array<float, 256> values = make_codes(false);
  return values;
}

float encode(std::span<const float> x, const std::array<float, 256>& values, std::span<uint8_t> codes) {
  TERN_CHECK(x.size() == codes.size() && std::ssize(x) <= kCodeBlock, "encode: {} values, {} codes", x.size(),
             codes.size());
  float scale = 1e-12f;
  for (const float value : x) scale = std::max(scale, std::abs(value));
  const CodeSearch& search = &values == &signed_codes() ? signed_search() : unsigned_search();
  for (size_t i = 0; i < x.size(); ++i) codes[i] = search.nearest(x[i] / scale);
  return scale;
}

}  // namespace tern
