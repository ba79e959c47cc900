#pragma once
// Records of a file that are read, changed in memory and written back, in a fixed order, again and again: threads read ahead and
// write behind while one record is in use. States that are larger than memory pass through it once in each step.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/extent.h"
#include "store/extent_ring.h"
#include "store/scratch_file.h"

namespace tern {

/// Extents that are lent together. Each begins at a multiple of the file's alignment; what lies behind it in its last block is nobody's.
/// No two records share a block.
struct ExchangedRecord {
  std::vector<Extent> extents;
};

/// Counts over all passes so far.
struct ExchangeCounts {
  int64_t used = 0, used_bytes = 0;           // records that were acquired; their extents' bytes
  int64_t read_bytes = 0, written_bytes = 0;  // from and to the disk, in whole blocks; what is read ahead too
  int64_t waited_ns = 0;                      // by acquire and settle
  int64_t read_ns = 0, written_ns = 0;        // of all threads together
};

class ExchangeRing {
 public:
  /// How many of `slots` slots these records use: a record is never in two slots.
  static int slots_for(std::span<const ExchangedRecord>, int slots);
  /// Bytes of one slot, and of slots_for all of them.
  static int64_t slot_bytes_for(std::span<const ExchangedRecord>, int64_t alignment);
  static int64_t bytes_for(std::span<const ExchangedRecord>, int slots, int64_t alignment);
  /// `memory`: bytes_for of them, from a multiple of the alignment on; it outlives the ring, as `file` does. Reading begins at once.
  /// settings.cyclic is not looked at.
  ExchangeRing(ScratchFile& file, std::vector<ExchangedRecord>, const RingSettings&, std::span<std::byte> memory,
               Clock& = real_clock());
  /// What was released and is not written yet is lost: settle first.
  ~ExchangeRing();
  ExchangeRing(const ExchangeRing&) = delete;
  ExchangeRing& operator=(const ExchangeRing&) = delete;

  /// The bytes of each extent of the record, when they are there; to be changed in place until release. One thread acquires, and records come in
  /// their order, the first again after the last. Errors: those of read_extent and of a write that came before; TERN_CHECK: another record's
  /// turn.
  std::vector<std::span<std::byte>> acquire(int record);
  /// Ends the use of the acquired record, which is then written back.
  void release();
  /// Waits until everything that was released lies in the file. Errors: those of write_blocks.
  void settle();

  int num_records() const { return static_cast<int>(records_.size()); }
  ExchangeCounts counts() const;

 private:
  enum class SlotState : uint8_t { empty, reading, ready, held, changed, writing };
  struct Slot {
    SlotState state = SlotState::empty;
    int64_t turn = -1;  // the number of the read, counted on from pass to pass
    std::exception_ptr error{};
  };
  void work();
  void read_one(std::unique_lock<std::mutex>&);
  void write_one(std::unique_lock<std::mutex>&);
  bool may_read() const;
  Slot& slot_of(int64_t turn) { return slots_[static_cast<size_t>(turn) % slots_.size()]; }
  const ExchangedRecord& record_of(int64_t turn) const { return records_[static_cast<size_t>(turn) % records_.size()]; }
  // Where the extents of the record of `turn` lie in its slot, in whole blocks.
  std::vector<std::span<std::byte>> blocks_of_turn(int64_t turn) const;
  // Calls `move` with the offset and the memory of each stretch of the record; the sum of what it returns.
  int64_t for_each_run(int64_t turn, const std::function<int64_t(int64_t, std::span<std::byte>)>& move) const;
  bool settled() const;

  ScratchFile& file_;
  std::vector<ExchangedRecord> records_;
  std::span<std::byte> memory_;
  Clock& clock_;
  int64_t slot_bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<Slot> slots_;
  std::deque<int64_t> writes_;  // turns that wait to be written
  int64_t next_ = 0;            // the turn that is read next
  int64_t use_ = 0;             // the turn that is acquired next, or is held
  bool stop_ = false;
  std::exception_ptr write_error_;
  ExchangeCounts counts_;
  std::vector<std::thread> threads_;
};

}  // namespace tern
