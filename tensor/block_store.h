#pragma once
// Memory for an arena: blocks from the system, and freed blocks kept for later ones.
//
// Kept memory is one list of stretches, ordered by address; neighbours are merged, and a block is cut from the smallest
// stretch that holds it. Where none does, a block of small pages is joined from several. So a step that repeats itself gets its
// memory again, and no page of it is cleared twice.

#include <cstddef>
#include <map>

namespace tern {

/// Not thread-safe. Keeps nothing under a sanitizer, so that the sanitizer sees every use of memory after it was given back.
class BlockStore {
 public:
  /// Blocks are cut at multiples of `page` bytes, a power of two; 0: the system's page. Errors: TERN_CHECK, if `page`
  /// is smaller than the system's page: the system takes back whole pages, so part of a neighbour would go too.
  explicit BlockStore(size_t page = 0);
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;
  ~BlockStore() { drop(0); }

  /// `size` bytes (a multiple of 64, at least 64), aligned to 64; null if the system has none. If no kept stretch holds
  /// `size` and none can be joined, kept memory first goes back to the system until at most `most_kept` bytes are kept.
  void* take(size_t size, size_t most_kept);
  /// Gives back a block; `size` as in take. If keeps(size), as many of its pages are kept as leave at most `most_kept` bytes kept.
  void give(void* block, size_t size, size_t most_kept);
  size_t kept_bytes() const { return kept_bytes_; }
  /// Whether a block of `size` bytes is large enough to get whole pages of its own, which can be kept.
  static bool keeps(size_t size);

 private:
  void drop(size_t most_kept);
  // A block of pages that are kept in several stretches, at least half of it, and new ones. null: too few are kept, the block is one of huge
  // pages, or the system moves none.
  void* join(size_t size);
  size_t whole_pages(size_t size) const { return (size + page_ - 1) / page_ * page_; }
  size_t page_;
  std::map<char*, size_t> kept_;  // begin and bytes: whole pages, no two touch
  size_t kept_bytes_ = 0;
  bool joins_ = true;  // until the system refuses: kernels before 6.17 move no pages of several mappings at once
};

}  // namespace tern
