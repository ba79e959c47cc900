#include "update/outer_codec.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/cpu/parallel.h"

namespace tern {
namespace {

int64_t largest_code(OuterCodec c) { return c == OuterCodec::int8 ? 127 : 7; }
int64_t bits_of(OuterCodec c) { return c == OuterCodec::int8 ? 8 : c == OuterCodec::int4 ? 4 : 1; }
int64_t block_bytes(OuterCodec c) { return 4 + kOuterBlock * bits_of(c) / 8; }
int64_t blocks_of(int64_t elements) { return (elements + kOuterBlock - 1) / kOuterBlock; }

// The code of element i, as a whole number.
int code_at(OuterCodec c, const uint8_t* codes, int64_t i) {
  if (c == OuterCodec::int8) return static_cast<int8_t>(codes[i]);
  if (c == OuterCodec::sign) return (codes[i / 8] >> i % 8 & 1) != 0 ? 1 : -1;
  return static_cast<int>((i % 2 == 0 ? codes[i / 2] & 15 : codes[i / 2] >> 4)) - 8;
}

// Signs, and the mean of what they are of; NaN where something is not finite.
template <class T>
void encode_signs(std::span<T> x, uint8_t* out) {
  double sum = 0;
  for (const T v : x) sum += std::isfinite(v) ? std::abs(static_cast<double>(v)) : NAN;
  const auto scale = static_cast<float>(sum / static_cast<double>(std::max<size_t>(x.size(), 1)));
  std::memcpy(out, &scale, sizeof(scale));
  uint8_t* codes = out + sizeof(scale);
  std::memset(codes, 0, static_cast<size_t>(kOuterBlock / 8));
  if (!(scale > 0)) return;
  for (size_t i = 0; i < x.size(); ++i) {
    const bool plus = x[i] >= 0;
    codes[i / 8] = static_cast<uint8_t>(codes[i / 8] | (plus ? 1 : 0) << i % 8);
    x[i] -= plus ? static_cast<T>(scale) : -static_cast<T>(scale);
  }
}

template <class T>
void encode_block(OuterCodec c, std::span<T> x, uint8_t* out) {
  if (c == OuterCodec::sign) return encode_signs(x, out);
  T largest = 0;
  for (const T v : x) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : static_cast<T>(NAN);
  const float scale = static_cast<float>(largest) / static_cast<float>(largest_code(c));
  std::memcpy(out, &scale, sizeof(scale));
  uint8_t* codes = out + sizeof(scale);
  std::memset(codes, c == OuterCodec::int8 ? 0 : 0x88, static_cast<size_t>(block_bytes(c)) - sizeof(scale));
  if (!(scale > 0)) return;  // all zero, too small for a scale, or not finite
  const auto most = static_cast<T>(largest_code(c));
  for (size_t i = 0; i < x.size(); ++i) {
    const auto code = static_cast<int>(std::nearbyint(std::clamp(x[i] / static_cast<T>(scale), -most, most)));
    if (c == OuterCodec::int8)
      codes[i] = static_cast<uint8_t>(static_cast<int8_t>(code));
    else if (i % 2 == 0)
      codes[i / 2] = static_cast<uint8_t>((codes[i / 2] & 0xf0) | (code + 8));
    else
      codes[i / 2] = static_cast<uint8_t>((codes[i / 2] & 0x0f) | ((code + 8) << 4));
    x[i] -= static_cast<T>(scale) * static_cast<T>(code);
  }
}

// Calls visit(begin, end, block's bytes) for each block.
template <class Visit>
void each_block(OuterCodec c, int64_t elements, Visit visit) {
  parallel_ranges(blocks_of(elements), row_grain(kOuterBlock), 1, [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b)
      visit(b * kOuterBlock, std::min(elements, (b + 1) * kOuterBlock), b * block_bytes(c));
  });
}

void check_sizes(OuterCodec c, int64_t elements, size_t bytes) {
  TERN_CHECK(is_in_codes(c) && static_cast<int64_t>(bytes) == codec_bytes(c, elements),
             "outer codec: {} elements in {} bytes", elements, bytes);
}

}  // namespace

int64_t codec_bytes(OuterCodec c, int64_t elements) { return blocks_of(elements) * block_bytes(c); }

template <class T>
void encode(OuterCodec c, std::span<T> x, std::span<uint8_t> codes) {
  check_sizes(c, std::ssize(x), codes.size());
  each_block(c, std::ssize(x), [&](int64_t begin, int64_t end, int64_t at) {
    encode_block(c, x.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), codes.data() + at);
  });
}

template <class T>
void decode(OuterCodec c, std::span<const uint8_t> codes, std::span<T> x) {
  check_sizes(c, std::ssize(x), codes.size());
  each_block(c, std::ssize(x), [&](int64_t begin, int64_t end, int64_t at) {
    float scale = 0;
    std::memcpy(&scale, codes.data() + at, sizeof(scale));
    const uint8_t* own = codes.data() + at + sizeof(scale);
    for (int64_t i = begin; i < end; ++i)
      x[static_cast<size_t>(i)] = static_cast<T>(scale) * static_cast<T>(code_at(c, own, i - begin));
  });
}

template void encode(OuterCodec, std::span<float>, std::span<uint8_t>);
template void encode(OuterCodec, std::span<double>, std::span<uint8_t>);
template void decode(OuterCodec, std::span<const uint8_t>, std::span<float>);
template void decode(OuterCodec, std::span<const uint8_t>, std::span<double>);

}  // namespace tern
