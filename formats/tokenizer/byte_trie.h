#pragma once
// Pieces by their bytes: finds all pieces that a text begins with, one step per byte.

#include <cstdint>
#include <string_view>
#include <vector>

namespace tern {

/// A trie whose edges lie in one hash table: eight bytes each, so its memory follows its keys whatever they are.
class ByteTrie {
 public:
  static constexpr uint32_t kRoot = 0, kMaxNodes = (1u << 24) - 1;

  /// False if the key is there already (its value stays) or the trie is full; an empty key is the root's.
  bool add(std::string_view key, int32_t value);
  bool full() const { return values_.size() >= kMaxNodes; }

  /// The node one byte further; kRoot if there is none.
  uint32_t child(uint32_t node, uint8_t byte) const {
    if (node == kRoot) return first_[byte];
    if (slots_.empty()) return kRoot;
    const uint64_t key = static_cast<uint64_t>(node) << 8 | byte;
    for (size_t at = slot_of(key);; at = (at + 1) & mask_) {
      const uint64_t slot = slots_[at];
      if (slot >> 24 == key) return static_cast<uint32_t>(slot & 0xFFFFFF);
      if (slot == 0) return kRoot;
    }
  }
  int32_t value(uint32_t node) const { return values_[node]; }  // -1: no key ends here

 private:
  size_t slot_of(uint64_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15ull) >> shift_); }
  void insert(uint64_t slot);

  uint32_t first_[256] = {};  // children of the root
  std::vector<int32_t> values_ = {-1};
  std::vector<uint64_t> slots_;  // parent << 32 | byte << 24 | child; 0: free
  size_t mask_ = 0, num_edges_ = 0;
  int shift_ = 64;
};

}  // namespace tern
