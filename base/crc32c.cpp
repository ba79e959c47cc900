#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace tern {
namespace {

constexpr std::array<uint32_t, 256> make_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) ? 0x82F63B78u : 0u);
    table[i] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = make_table();

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t crc32c_sse42(std::span<const std::byte> data, uint32_t crc) {
  uint64_t state = ~crc;
  const std::byte* p = data.data();
  size_t left = data.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    state = _mm_crc32_u64(state, word);
  }
  auto narrow = static_cast<uint32_t>(state);
  for (; left > 0; ++p, --left) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(*p));
  return ~narrow;
}
bool has_instruction() { return __builtin_cpu_supports("sse4.2"); }
#else
uint32_t crc32c_sse42(std::span<const std::byte> data, uint32_t crc) { return crc32c_ref(data, crc); }
bool has_instruction() { return false; }
#endif

}  // namespace

bool crc32c_is_fast() {
  static const bool fast = has_instruction();
  return fast;
}

uint32_t crc32c(std::span<const std::byte> data, uint32_t crc) {
  return crc32c_is_fast() ? crc32c_sse42(data, crc) : crc32c_ref(data, crc);
}

uint32_t crc32c_ref(std::span<const std::byte> data, uint32_t crc) {
  crc = ~crc;
  for (const std::byte b : data) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 0xFFu];
  return ~crc;
}

}  // namespace tern
