#include "tensor/block_store.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <iterator>

#include "base/error.h"
#include "base/pages.h"

namespace tern {

namespace {

constexpr size_t kBlockAlignment = 64;
// Blocks from here on are pages of their own (the C library keeps freed blocks of up to 32 MiB).
constexpr size_t kOwnFrom = size_t{128} << 10;

}  // namespace

BlockStore::BlockStore(size_t bytes) : page_(bytes > 0 ? bytes : page_bytes()) {
  TERN_CHECK(std::has_single_bit(page_) && page_ % page_bytes() == 0, "block store: pages of {} bytes", page_);
}

bool BlockStore::keeps(size_t size) { return size >= kOwnFrom && takes_pages(); }

void* BlockStore::take(size_t size, size_t most_kept) {
  if (!keeps(size)) {
    drop(most_kept);
    return std::aligned_alloc(kBlockAlignment, size);
  }
  size = whole_pages(size);
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at)
    if (at->second >= size && (best == kept_.end() || at->second < best->second)) best = at;
  if (best == kept_.end()) {
    if (void* const joined = join(size)) return joined;
    drop(most_kept);
    if (void* const mapped = map_pages(size)) return mapped;
    drop(0);  // what is kept may be what is missing
    return map_pages(size);
  }
  const auto [begin, bytes] = *best;
  kept_.erase(best);
  if (bytes > size) kept_.emplace(begin + size, bytes - size);
  kept_bytes_ -= size;
  return begin;
}

void* BlockStore::join(size_t size) {
  // A huge page is cleared sooner than small ones are moved.
  if (!joins_ || size >= kHugePage || kept_bytes_ < size / 2) return nullptr;
  auto* const block = static_cast<char*>(map_pages(size));
  if (!block) return nullptr;
  for (size_t filled = 0; filled < size && kept_bytes_ > 0;) {
    const auto least =
        std::min_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const size_t bytes = std::min(least->second, size - filled);
    if (!move_pages(least->first + least->second - bytes, bytes, block + filled)) {
      joins_ = false;
      unmap_pages(block, filled);  // behind it the addresses may be another's by now
      return nullptr;
    }
    filled += bytes, kept_bytes_ -= bytes;
    if ((least->second -= bytes) == 0) kept_.erase(least);
  }
  return block;
}

void BlockStore::give(void* block, size_t size, size_t most_kept) {
  if (!keeps(size)) return std::free(block);
  size = whole_pages(size);
  const size_t room = most_kept > kept_bytes_ ? (most_kept - kept_bytes_) / page_ * page_ : 0,
               keep = std::min(size, room);
  unmap_pages(static_cast<char*>(block) + keep, size - keep);
  if (keep == 0) return;
  size = keep;
  kept_bytes_ += size;
  auto at = kept_.emplace(static_cast<char*>(block), size).first;
  if (const auto next = std::next(at); next != kept_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    kept_.erase(next);
  }
  if (at == kept_.begin()) return;
  if (const auto before = std::prev(at); before->first + before->second == at->first) {
    before->second += at->second;
    kept_.erase(at);
  }
}

void BlockStore::drop(size_t most_kept) {
  while (kept_bytes_ > most_kept) {
    const auto largest =
        std::max_element(kept_.begin(), kept_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    const size_t bytes = std::min(largest->second, whole_pages(kept_bytes_ - most_kept));
    largest->second -= bytes;
    unmap_pages(largest->first + largest->second, bytes);
    kept_bytes_ -= bytes;
    if (largest->second == 0) kept_.erase(largest);
  }
}

}  // namespace tern
