#include "base/rng.h"

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace tern {
namespace {

constexpr uint32_t kMultiply0 = 0xD2511F53u, kMultiply1 = 0xCD9E8D57u;
constexpr uint32_t kWeyl0 = 0x9E3779B9u, kWeyl1 = 0xBB67AE85u;  // golden ratio, sqrt(3) - 1

Philox4 block(RngKey key, uint64_t index, uint32_t lane) {
  // The stream takes the counter's upper half; its top bits carry the lane, so that one element may own several blocks.
  const Philox4 counter = {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                           static_cast<uint32_t>(key.stream), static_cast<uint32_t>(key.stream >> 32) ^ lane};
  return philox(counter, {static_cast<uint32_t>(key.seed), static_cast<uint32_t>(key.seed >> 32)});
}

uint64_t join(uint32_t low, uint32_t high) { return (static_cast<uint64_t>(high) << 32) | low; }

}  // namespace

Philox4 philox(Philox4 c, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = static_cast<uint64_t>(kMultiply0) * c[0];
    const uint64_t p1 = static_cast<uint64_t>(kMultiply1) * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(p0)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return c;
}

uint64_t hash_name(std::string_view name, uint64_t hash) {
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

uint64_t random_u64(RngKey key, uint64_t index) {
  const Philox4 x = block(key, index, 0);
  return join(x[0], x[1]);
}

double random_uniform(RngKey key, uint64_t index) {
  return static_cast<double>(random_u64(key, index) >> 11) * 0x1p-53;
}

double random_normal(RngKey key, uint64_t index) {
  const Philox4 x = block(key, index, 0);
  const double u = (static_cast<double>(join(x[0], x[1]) >> 11) + 1.0) * 0x1p-53;  // (0, 1]: its logarithm is finite
  const double v = static_cast<double>(join(x[2], x[3]) >> 11) * 0x1p-53;
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

// A balanced Feistel network permutes [0, 4^half_bits), the smallest such range that holds `size`; walking its cycle
// until the value is below `size` permutes [0, size). The range is below 4·size, so a walk takes fewer than four steps
// on average. Source: Black and Rogaway 2002, "Ciphers with arbitrary finite domains" (recalled).
uint64_t random_permutation(RngKey key, uint64_t index, uint64_t size) {
  TERN_CHECK(index < size, "random_permutation: index {} of {}", index, size);
  int half_bits = 1;
  while (half_bits < 32 && (uint64_t{1} << (2 * half_bits)) < size) ++half_bits;
  const uint64_t mask = (uint64_t{1} << half_bits) - 1;
  uint64_t value = index;
  do {
    uint64_t left = value >> half_bits, right = value & mask;
    for (uint32_t round = 0; round < 6; ++round) {
      const uint64_t mixed = left ^ (block(key, right, round + 1)[0] & mask);
      left = right;
      right = mixed;
    }
    value = (left << half_bits) | right;
  } while (value >= size);
  return value;
}

}  // namespace tern
