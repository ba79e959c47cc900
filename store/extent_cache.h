#pragma once
// Items of a few extents each that are read when they are asked for, and kept as long as nothing better needs their slot:
// experts of a mixture. Threads read a list's missing items in the order of their use while products of the others run.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/block_files.h"
#include "store/cache_decisions.h"
#include "store/extent.h"
#include "store/extent_ring.h"

namespace tern {

/// What is read and kept together. Items of one group have slots of one size.
struct CacheItem {
  std::vector<Extent> extents;
  int group = 0;
};

/// Counts over all lists so far.
struct CacheCounts {
  CacheHits items;
  int64_t wanted_bytes = 0, missed_bytes = 0;  // of the items of all lists, and of those that were not there
  int64_t read_bytes = 0;                      // from the disk, with what lies beside extents in their blocks
  int64_t waited_ns = 0;                       // by acquire
};

/// Place numbers (ExtentRing) count the extents of all items, item by item.
class ExtentCache final : public ExtentRing {
 public:
  /// Bytes that the cache takes for these items.
  static int64_t bytes_for(std::span<const CacheItem>, std::span<const int> slots, int64_t alignment);
  /// `memory`: bytes_for of them, from a multiple of the alignment on; it outlives the cache, as `files` does. Nothing is read
  /// before it is wanted.
  ExtentCache(BlockFiles& files, std::vector<CacheItem>, const CacheSettings&, int threads, std::span<std::byte> memory,
              Clock& = real_clock());
  ~ExtentCache() override;
  ExtentCache(const ExtentCache&) = delete;
  ExtentCache& operator=(const ExtentCache&) = delete;

  /// What will be acquired from now on: every extent of these items once, the items in this order. Reading begins at once. What
  /// an earlier list asked for and nobody acquired is dropped.
  void want(std::span<const int> items);
  /// Moves the item's score (CacheDecisions::see).
  void see(int item, double share);
  /// An extent of an item of the list.
  std::span<const std::byte> acquire(int place) override;
  void release(int place) noexcept override;

  const Extent& extent(int place) const override {
    const int item = item_at(place);
    return items_[static_cast<size_t>(item)].extents[static_cast<size_t>(place - first_place(item))];
  }
  int first_place(int item) const { return first_place_[static_cast<size_t>(item)]; }
  int item_at(int place) const { return item_at_[static_cast<size_t>(place)]; }
  int num_items() const { return static_cast<int>(items_.size()); }
  CacheCounts counts() const;
  /// Bytes that the disk reads for the item: whole blocks.
  int64_t block_bytes(int item) const { return block_bytes_of(items_[static_cast<size_t>(item)], files_.alignment()); }
  static int64_t block_bytes_of(const CacheItem&, int64_t alignment);
  /// Of each slot, in the order of groups.
  std::vector<int64_t> slot_bytes() const {
    return slot_bytes_of(items_, decisions_.settings().slots, files_.alignment());
  }
  static std::vector<int64_t> slot_bytes_of(std::span<const CacheItem>, std::span<const int> slots, int64_t alignment);
  /// Ends the list at hand as the next one would, and returns the decisions as that one will find them.
  CacheDecisions settled_decisions();

  /// on: from now on lists, the shares seen between them, reads and leases are recorded until they are taken.
  void record(bool on);
  /// A list, or, where it is empty, a share that was seen.
  struct Event {
    std::vector<int> list;
    int item = -1;
    double share = 0;
    int64_t at_ns = 0;  // of a list: when it was asked for
  };
  std::vector<Event> take_events();
  /// Turns count the uses of all lists: CacheHits::wanted before the list, + the item's place in it.
  std::vector<RingRead> take_reads();
  std::vector<RingLease> take_leases();

 private:
  struct Read {
    int item = 0, slot = 0, after = -1;  // as of PlannedRead
    int64_t missing = 0;                 // pieces that are still to come
    std::exception_ptr error;
    RingRead record;  // so far
  };
  struct Piece {
    size_t read = 0;
    Extent extent;
    int64_t offset = 0, room = 0;  // in the slot
  };
  void read_pieces();
  void add_pieces(size_t read);
  void drop_unread();
  void end_list(std::unique_lock<std::mutex>&);
  bool may_read() const;

  BlockFiles& files_;
  std::vector<CacheItem> items_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable work_, ready_;
  CacheDecisions decisions_;
  std::vector<std::byte*> slots_;
  std::vector<int> first_place_, item_at_;  // of items; of places
  // Of the list at hand: its items, where an item stands in it (-1: nowhere), and of each of them its slot, its read (-1: it was
  // there) and how many of its extents are still to be released.
  std::vector<int> list_, stands_at_, slot_at_, read_at_, unused_at_;
  std::vector<Read> reads_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  int busy_ = 0;
  bool stop_ = false, records_ = false;
  CacheCounts counts_;
  int64_t first_turn_ = 0;  // of the list at hand
  std::vector<Event> events_;
  std::vector<RingRead> recorded_;
  std::vector<RingLease> leases_;
  std::vector<std::thread> threads_;
};

}  // namespace tern
