#pragma once
// Images of memory that lie in a scratch file: each is lent once in a pass, in a fixed order, through few slots. Only some blocks of an
// image are read before it is lent, and only some are written after it; `begin` is told which. Threads read ahead and write
// behind while one image is in use. Keys and values of layers pass through it.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/extent_ring.h"
#include "store/scratch_file.h"

namespace tern {

/// Bytes [begin, end) of an image.
struct BlockRun {
  int64_t begin = 0, end = 0;
  friend bool operator==(const BlockRun&, const BlockRun&) = default;
};
/// The same bytes in ascending runs of which no two overlap or touch.
std::vector<BlockRun> joined_runs(std::vector<BlockRun>);
int64_t bytes_of(std::span<const BlockRun>);

/// What a pass moves of one image: runs as of joined_runs, of whole blocks.
struct ImageMoves {
  std::vector<BlockRun> reads, writes;
};

/// Counts over all passes so far, taken after each read and write.
struct ImageCounts {
  struct Moved {
    int64_t read_bytes = 0, written_bytes = 0;
  };
  std::vector<Moved> images;
  int64_t passes = 0;     // begun
  int64_t waited_ns = 0;  // by acquire, settle and abandon
  int64_t read_bytes() const;
  int64_t written_bytes() const;
};

/// One read, or write, of an image's runs.
struct ImageMove {
  int image = 0;
  int64_t pass = 0;  // from 0; the image's turn is image + pass·num_images
  bool write = false;
  int64_t bytes = 0;
  int64_t begin_ns = 0, end_ns = 0;  // of its first and its last piece
};

class ImageRing {
 public:
  /// How many of `slots` slots these images use, and the bytes of all of them. An image is never in two slots.
  static int slots_for(std::span<const int64_t> image_bytes, int slots);
  static int64_t bytes_for(std::span<const int64_t> image_bytes, int slots, int64_t alignment);
  /// Bytes of the file, in which each image has whole blocks.
  static int64_t file_bytes_for(std::span<const int64_t> image_bytes, int64_t alignment);
  /// `memory`: bytes_for of them, from a multiple of the alignment on; it outlives the ring, as `file` does. settings.cyclic is not
  /// looked at.
  ImageRing(ScratchFile& file, std::vector<int64_t> image_bytes, const RingSettings&, std::span<std::byte> memory,
            Clock& = real_clock());
  /// What was released and is not written yet is lost.
  ~ImageRing();
  ImageRing(const ImageRing&) = delete;
  ImageRing& operator=(const ImageRing&) = delete;

  /// Begins a pass over all images; reading begins at once. The pass before has ended: each image was released, or it was abandoned.
  /// Errors: those of a write that came before.
  void begin(std::vector<ImageMoves> moves);
  /// The bytes of the next image of the pass, when what was to be read is there; other bytes are undefined. To be changed in place until
  /// release. Errors: those of read_extent, and of a write that came before; TERN_CHECK: another image's turn.
  std::span<std::byte> acquire(int image);
  /// Ends the use of the acquired image; the runs of it that the pass writes are then written.
  void release();
  /// The rest of the pass is left out: what was acquired and not released is not written. Waits until the disk is at rest.
  void abandon() noexcept;
  /// Waits until everything that was released lies in the file. Errors: those of write_blocks.
  void settle();

  int num_images() const { return static_cast<int>(image_bytes_.size()); }
  int64_t alignment() const { return file_.alignment(); }
  ImageCounts counts() const;
  int num_slots() const { return static_cast<int>(slots_.size()); }
  int64_t slot_bytes() const { return slot_bytes_; }
  /// record(true): from now on each move that ends without an error is recorded until take_moves takes it; of an abandoned
  /// read, what was moved. An image of which nothing is moved has no record.
  void record(bool on);
  std::vector<ImageMove> take_moves();

 private:
  enum class SlotState : uint8_t { empty, reading, ready, held, writing };
  struct Slot {
    SlotState state = SlotState::empty;
    std::vector<BlockRun> pieces;     // of the read or write that is under way
    size_t next = 0;                  // the first that nobody has begun
    size_t left = 0;                  // that have not ended
    std::exception_ptr error{};       // of a read
    int64_t begin_ns = 0, bytes = 0;  // of the move that is under way, if moves are recorded
  };
  struct Job {
    int64_t turn = 0;
    BlockRun piece;
    bool write = false;
  };
  void work();
  bool take(Job&);
  int64_t move(const Job&) const;
  void end(const Job&, int64_t bytes, std::exception_ptr error, int64_t end_ns);
  void begin_reads();
  bool all_at_rest() const;
  Slot& slot_of(int64_t turn) { return slots_[static_cast<size_t>(turn) % slots_.size()]; }
  size_t image_of(int64_t turn) const { return static_cast<size_t>(turn) % image_bytes_.size(); }
  std::span<std::byte> memory_of(int64_t turn) const;
  template <class Ready>
  void wait(std::unique_lock<std::mutex>&, Ready);

  ScratchFile& file_;
  std::vector<int64_t> image_bytes_, offsets_;  // offsets: in the file
  std::span<std::byte> memory_;
  Clock& clock_;
  int64_t slot_bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable work_, done_;
  std::vector<Slot> slots_;
  std::vector<ImageMoves> moves_;       // of the pass
  std::deque<int64_t> reads_, writes_;  // turns with pieces that nobody has begun
  int64_t next_ = 0;                    // the turn that is read next; turns count images on from pass to pass
  int64_t use_ = 0;                     // the turn that is acquired next, or is held
  int64_t limit_ = 0;                   // the first turn of the pass to come
  bool stop_ = false, records_ = false;
  std::exception_ptr write_error_;
  ImageCounts counts_;
  std::vector<ImageMove> recorded_;
  std::vector<std::thread> threads_;
};

}  // namespace tern
