#pragma once
// Ids of words that came before. A word's ids depend on the word alone, and a few thousand words make most of a text.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace tern {

/// The eight bytes, and the four bytes, at p as a number.
inline uint64_t load_u64(const char* p) {
  uint64_t v;
  std::memcpy(&v, p, 8);
  return v;
}
inline uint32_t load_u32(const char* p) {
  uint32_t v;
  std::memcpy(&v, p, 4);
  return v;
}

/// A hash of short texts: a multiplication for every 16 bytes. Source  ours.
inline uint64_t hash_word(std::string_view word) {
  constexpr uint64_t k1 = 0x9E3779B97F4A7C15ull, k2 = 0xD6E8FEB86659FD93ull;
  const auto mix = [](uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  const char* p = word.data();
  size_t n = word.size();
  uint64_t state = k1 ^ n;
  for (; n > 16; p += 16, n -= 16) state = mix(load_u64(p) ^ state, load_u64(p + 8) ^ k2);
  uint64_t a = 0, b = 0;
  if (n >= 8) {
    a = load_u64(p), b = load_u64(p + n - 8);
  } else if (n >= 4) {
    a = load_u32(p), b = load_u32(p + n - 4);
  } else if (n > 0) {
    a = static_cast<uint64_t>(static_cast<uint8_t>(p[0])) << 16 |
        static_cast<uint64_t>(static_cast<uint8_t>(p[n / 2])) << 8 | static_cast<uint8_t>(p[n - 1]);
  }
  return mix(a ^ state, b ^ k2);
}

/// Whether n bytes are the same; at the lengths that words have it calls no function of the C library.
inline bool same_bytes(const char* a, const char* b, size_t n) {
  if (n > 8) {
    for (; n > 8; a += 8, b += 8, n -= 8)
      if (load_u64(a) != load_u64(b)) return false;
    return load_u64(a + n - 8) == load_u64(b + n - 8);
  }
  if (n == 8) return load_u64(a) == load_u64(b);
  if (n >= 4) return load_u32(a) == load_u32(b) && load_u32(a + n - 4) == load_u32(b + n - 4);
  for (size_t i = 0; i < n; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

/// A direct-mapped table of words and their ids.
class WordCache {
 public:
  static constexpr size_t kMaxBytes = 46, kMaxIds = 20;
  static bool takes(std::string_view word) { return word.size() <= kMaxBytes; }

  /// Appends the word's ids; false if it is not known. `hash` is hash_word(word); the word fits (takes).
  bool find(std::string_view word, uint64_t hash, std::vector<int32_t>& ids) const {
    if (slots_.empty()) return false;
    const Slot& slot = slots_[hash & (kSlots - 1)];
    if (slot.num_bytes != word.size() || !same_bytes(slot.text, word.data(), word.size())) return false;
    ids.insert(ids.end(), slot.ids, slot.ids + slot.num_ids);
    return true;
  }
  /// Stores the word over the one in its slot, unless the word has too many ids.
  void remember(std::string_view word, uint64_t hash, std::span<const int32_t> ids) {
    if (ids.size() > kMaxIds) return;
    if (slots_.empty()) slots_.resize(kSlots);
    Slot& slot = slots_[hash & (kSlots - 1)];
    slot.num_bytes = static_cast<uint8_t>(word.size());
    slot.num_ids = static_cast<uint8_t>(ids.size());
    std::copy(word.begin(), word.end(), slot.text);
    std::copy(ids.begin(), ids.end(), slot.ids);  // none, of a word whose bytes have no token
  }

 private:
  static constexpr size_t kSlots = 1 << 15;
  struct alignas(64) Slot {  // two lines of the processor's cache; short words need the first alone for their text
    uint8_t num_bytes = 255, num_ids = 0;
    char text[kMaxBytes];
    int32_t ids[kMaxIds];
  };
  std::vector<Slot> slots_;  // direct mapped
};

}  // namespace tern
