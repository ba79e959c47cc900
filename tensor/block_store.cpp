#include "tensor/block_store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

#include "base/error.h"
#include "base/sanitized.h"

namespace tern {

namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHuge = size_t{2} << 20;  // a huge page of x86-64 and of most aarch64 systems

// Blocks from here on are mappings of their own, so that giving them back really gives them back (the C library keeps
// freed blocks of up to 32 MiB).
#if defined(__linux__) && !defined(TERN_SANITIZED)
constexpr size_t kOwnFrom = size_t{128} << 10;
#else
constexpr size_t kOwnFrom = SIZE_MAX;
#endif

void unmap_pages([[maybe_unused]] void* begin, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  if (bytes == 0 || ::munmap(begin, bytes) == 0) return;
  // A hole splits a mapping, and the system counts mappings. The pages go back all the same; the addresses stay ours.
  const bool too_many = errno == ENOMEM && ::madvise(begin, bytes, MADV_DONTNEED) == 0;
  TERN_CHECK(too_many, "block store: {} bytes at {} cannot be given back: {}", bytes, begin, std::strerror(errno));
#endif
}

/// Whole pages from the system. Large ones start on a huge page and ask for such: one fault instead of 512, and far
/// fewer misses when they are walked.
void* map_pages([[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const size_t spare = bytes >= kHuge ? kHuge : 0;
  void* const mapped = ::mmap(nullptr, bytes + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* begin = static_cast<char*>(mapped);
  if (spare == 0) return begin;
  const size_t before = (kHuge - reinterpret_cast<uintptr_t>(begin) % kHuge) % kHuge;
  unmap_pages(begin, before);
  begin += before;
  unmap_pages(begin + bytes, spare - before);
#if defined(MADV_HUGEPAGE)
  ::madvise(begin, bytes, MADV_HUGEPAGE);  // advice: where it is refused, small pages serve
#endif
  return begin;
#else
  return nullptr;
#endif
}

size_t system_page() {
#if defined(__linux__)
  static const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return page;
#else
  return 4096;
#endif
}

}  // namespace

BlockStore::BlockStore(size_t page_bytes) : page_(page_bytes > 0 ? page_bytes : system_page()) {
  TERN_CHECK(std::has_single_bit(page_) && page_ % system_page() == 0, "block store: pages of {} bytes", page_);
}

bool BlockStore::keeps(size_t size) { return size >= kOwnFrom; }

void* BlockStore::take(size_t size, size_t most_kept) {
  if (size < kOwnFrom) {
    drop(most_kept);
    return std::aligned_alloc(kAlignment, size);
  }
  size = whole_pages(size);
  auto best = kept_.end();
  for (auto at = kept_.begin(); at != kept_.end(); ++at)
    if (at->second >= size && (best == kept_.end() || at->second < best->second)) best = at;
  if (best == kept_.end()) {
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

void BlockStore::give(void* block, size_t size, size_t most_kept) {
  if (size < kOwnFrom) return std::free(block);
  size = whole_pages(size);
  if (kept_bytes_ + size > most_kept) return unmap_pages(block, size);
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
