#pragma once
// Few slots that many extents take turns in. In a CyclicRing the extents come in a fixed order: threads read ahead into slots that are free
// while one is in use, as far as its window allows. If the ring is cyclic, the order begins again after its end, so the disk never waits for the end of a pass.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "store/block_files.h"
#include "store/extent.h"
#include "store/ring_window.h"

namespace tern {

struct RingSettings {
  int slots = 8;       // 1: nothing is read ahead
  int threads = 4;     // that read, an extent each
  bool cyclic = true;  // false: one pass alone; nothing is read after the last extent
  // Of a CyclicRing: how its slots are lent and given back, with slots_for(window) slots at least. No blocks: extent by extent, whatever else it says.
  RingWindow window = {};
};
/// The window of these settings, or the one of single extents for which there are slots.
RingWindow window_of(const RingSettings&);

/// Counts over all reads so far.
struct RingCounts {
  int64_t used = 0, used_bytes = 0;  // extents that were acquired
  int64_t skipped = 0;     // extents that were passed over after they had been read or while they were being read
  int64_t read_bytes = 0;  // from the disk, with what lies beside extents in their blocks
  int64_t waited_ns = 0;   // by acquire
};

/// One extent, or one item of a cache (store/extent_cache.h), on its way from the disk.
struct RingRead {
  int place = 0;      // of an item: its number
  int64_t turn = 0;   // counted on from pass to pass: place + pass·num_places; of an item: the number of its use
  int64_t bytes = 0;  // from the disk, in whole blocks: the last one of a file counts whole
  int64_t begin_ns = 0, end_ns = 0;
};
/// One use of an extent or an item, from acquire to release; of an item from its first extent's to its last one's.
struct RingLease {
  int place = 0;
  int64_t turn = 0;                  // that of its RingRead
  int64_t asked_ns = 0;              // when acquire was called
  int64_t begin_ns = 0, end_ns = 0;  // when the extent was there; when it was given back
};

/// Lends extents by their places, for the time of a product.
class ExtentRing {
 public:
  virtual ~ExtentRing() = default;
  /// The bytes of the extent at `place`, when they are there. They stay until release. One thread acquires, one place at a time.
  /// Errors: those of read_extent, each time.
  virtual std::span<const std::byte> acquire(int place) = 0;
  virtual void release(int place) noexcept = 0;
  /// Where the extent at `place` lies.
  virtual const Extent& extent(int place) const = 0;
};

class CyclicRing final : public ExtentRing {
 public:
  /// Bytes that the ring takes for these extents.
  static int64_t bytes_for(std::span<const Extent> order, int slots, int64_t alignment);
  /// What to allocate for them, as the allocation may begin anywhere. From 1 MiB on whole huge pages where a quarter of the last one
  /// is needed: a read into small pages pins each of them (0.45 GB/s where huge pages give 1.5).
  static int64_t allocation_for(std::span<const Extent> order, int slots, int64_t alignment);
  /// `memory`: bytes_for of them, from a multiple of the alignment on; it outlives the ring, as `files` does. Reading
  /// begins at once.
  CyclicRing(BlockFiles& files, std::vector<Extent> order, const RingSettings&, std::span<std::byte> memory,
             Clock& = real_clock());
  ~CyclicRing() override;
  CyclicRing(const CyclicRing&) = delete;
  CyclicRing& operator=(const CyclicRing&) = delete;

  /// Places that stand between the last one and this are passed over.
  std::span<const std::byte> acquire(int place) override;
  void release(int place) noexcept override;

  int num_places() const { return static_cast<int>(order_.size()); }
  RingCounts counts() const;
  int num_slots() const { return static_cast<int>(slots_.size()); }
  const RingSettings& settings() const { return settings_; }
  int64_t slot_bytes() const { return slot_bytes_; }
  const Extent& extent(int place) const override { return order_[static_cast<size_t>(place)]; }
  /// The bytes that the disk reads for the extent at `place`: whole blocks.
  int64_t block_bytes(int place) const { return blocks_of(extent(place), files_.alignment()).bytes; }
  /// record(true): from now on each read that ends and each lease that begins is recorded until it is taken.
  void record(bool on);
  std::vector<RingRead> take_reads();
  /// Leases that have ended, in their order.
  std::vector<RingLease> take_leases();

 private:
  struct Slot {
    int64_t turn = -1;  // the number of the read, counted on from pass to pass; -1: empty
    bool busy = false;  // a thread reads into it
    bool ready = false;
    std::span<const std::byte> bytes;
    std::exception_ptr error;
  };
  void read_ahead();
  Slot& slot_of(int64_t turn) { return slots_[static_cast<size_t>(turn) % slots_.size()]; }
  const Extent& extent_of(int64_t turn) const { return order_[static_cast<size_t>(turn) % order_.size()]; }
  bool may_read() const;
  bool may_lend(int64_t turn);

  BlockFiles& files_;
  std::vector<Extent> order_;
  RingSettings settings_;
  RingTurns turns_;
  std::span<std::byte> memory_;
  Clock& clock_;
  mutable std::mutex mutex_;
  std::condition_variable free_, ready_;
  std::vector<Slot> slots_;
  int64_t slot_bytes_ = 0;
  int64_t next_ = 0;  // the turn that is read next
  int64_t use_ = 0;   // the first turn that is not released yet
  bool held_ = false, stop_ = false, records_ = false;
  RingCounts counts_;
  std::vector<RingRead> reads_;
  std::vector<RingLease> leases_;
  std::vector<std::thread> threads_;
};

/// The right to read one extent of a ring; it ends with the destructor, so threads that read the bytes must have been joined
/// before.
class ExtentLease {
 public:
  ExtentLease(ExtentRing& ring, int place) : ring_(&ring), place_(place), bytes_(ring.acquire(place)) {}
  ExtentLease(const ExtentLease&) = delete;
  ExtentLease& operator=(const ExtentLease&) = delete;
  ~ExtentLease() { ring_->release(place_); }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  ExtentRing* ring_;
  int place_;
  std::span<const std::byte> bytes_;
};

}  // namespace tern
