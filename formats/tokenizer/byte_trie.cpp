#include "formats/tokenizer/byte_trie.h"

#include <algorithm>
#include <bit>

namespace tern {

void ByteTrie::insert(uint64_t slot) {
  size_t at = slot_of(slot >> 24);
  while (slots_[at] != 0) at = (at + 1) & mask_;
  slots_[at] = slot;
}

bool ByteTrie::add(std::string_view key, int32_t value) {
  uint32_t node = kRoot;
  for (const char c : key) {
    const auto byte = static_cast<uint8_t>(c);
    uint32_t next = child(node, byte);
    if (next == kRoot) {
      if (full()) return false;
      next = static_cast<uint32_t>(values_.size());
      values_.push_back(-1);
      if (node == kRoot) {
        first_[byte] = next;
      } else {
        if (2 * (num_edges_ + 1) > slots_.size()) {
          std::vector<uint64_t> old = std::move(slots_);
          slots_.assign(std::max<size_t>(64, 2 * old.size()), 0);
          mask_ = slots_.size() - 1;
          shift_ = 64 - std::countr_zero(slots_.size());
          for (const uint64_t slot : old)
            if (slot != 0) insert(slot);
        }
        insert(static_cast<uint64_t>(node) << 32 | static_cast<uint64_t>(byte) << 24 | next);
        ++num_edges_;
      }
    }
    node = next;
  }
  if (values_[node] >= 0) return false;
  values_[node] = value;
  return true;
}

}  // namespace tern
