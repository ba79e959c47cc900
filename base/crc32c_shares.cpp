#include "base/crc32c_shares.h"

#include <array>

#include "base/crc32c.h"

namespace tern {
namespace {

// Polynomials of degree below 32, reflected: bit 31 is the coefficient of x^0.
constexpr uint32_t kOne = uint32_t{1} << 31;

constexpr uint32_t crc_times_x(uint32_t a) { return (a >> 1) ^ ((a & 1u) ? 0x82F63B78u : 0u); }

// a · b modulo the polynomial of CRC-32C.
constexpr uint32_t crc_product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (uint32_t bit = kOne; a != 0; bit >>= 1, b = crc_times_x(b))
    if (a & bit) product ^= b, a ^= bit;
  return product;
}

// x^8, and its square again and again: what so many bytes of zeros behind a part make of its remainder.
constexpr std::array<uint32_t, 63> make_zero_bytes() {
  std::array<uint32_t, 63> powers{};
  uint32_t power = kOne >> 8;
  for (uint32_t& p : powers) p = power, power = crc_product(power, power);
  return powers;
}
constexpr std::array<uint32_t, 63> kZeroBytes = make_zero_bytes();

uint32_t followed_by(uint32_t remainder, int64_t bytes) {
  for (size_t k = 0; bytes > 0; ++k, bytes >>= 1)
    if (bytes & 1) remainder = crc_product(kZeroBytes[k], remainder);
  return remainder;
}

}  // namespace

uint32_t crc32c_share(std::span<const std::byte> part, int64_t bytes_after) {
  return followed_by(~crc32c(part, ~uint32_t{0}), bytes_after);  // begun at zero and not inverted
}

uint32_t crc32c_of_shares(uint32_t shares, int64_t file_bytes) {
  return ~(followed_by(~uint32_t{0}, file_bytes) ^ shares);
}

}  // namespace tern
