#include "store/image_ring.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/rounding.h"
#include "store/read_extent.h"

namespace tern {
namespace {

// Of a read or write: several threads share one image.
constexpr int64_t kImagePiece = int64_t{1} << 20;

std::vector<BlockRun> in_pieces(std::span<const BlockRun> runs, int64_t alignment) {
  const int64_t most = std::max(kImagePiece, alignment);
  std::vector<BlockRun> pieces;
  for (const BlockRun& run : runs)
    for (int64_t at = run.begin; at < run.end; at += most) pieces.push_back({at, std::min(run.end, at + most)});
  return pieces;
}

int64_t largest_image(std::span<const int64_t> image_bytes, int64_t alignment) {
  int64_t most = 0;
  for (const int64_t bytes : image_bytes) most = std::max(most, round_up(bytes, alignment));
  return most;
}

}  // namespace

std::vector<BlockRun> joined_runs(std::vector<BlockRun> runs) {
  std::ranges::sort(runs, {}, &BlockRun::begin);
  std::vector<BlockRun> joined;
  for (const BlockRun& run : runs) {
    if (run.begin == run.end) continue;
    if (!joined.empty() && run.begin <= joined.back().end)
      joined.back().end = std::max(joined.back().end, run.end);
    else
      joined.push_back(run);
  }
  return joined;
}

int64_t bytes_of(std::span<const BlockRun> runs) {
  int64_t bytes = 0;
  for (const BlockRun& run : runs) bytes += run.end - run.begin;
  return bytes;
}

int64_t ImageCounts::read_bytes() const {
  int64_t bytes = 0;
  for (const Moved& m : images) bytes += m.read_bytes;
  return bytes;
}
int64_t ImageCounts::written_bytes() const {
  int64_t bytes = 0;
  for (const Moved& m : images) bytes += m.written_bytes;
  return bytes;
}

int ImageRing::slots_for(std::span<const int64_t> image_bytes, int slots) {
  return static_cast<int>(std::min<int64_t>(slots, std::ssize(image_bytes)));
}
int64_t ImageRing::bytes_for(std::span<const int64_t> image_bytes, int slots, int64_t alignment) {
  return slots_for(image_bytes, slots) * largest_image(image_bytes, alignment);
}
int64_t ImageRing::file_bytes_for(std::span<const int64_t> image_bytes, int64_t alignment) {
  int64_t bytes = 0;
  for (const int64_t image : image_bytes) bytes += round_up(image, alignment);
  return bytes;
}

ImageRing::ImageRing(ScratchFile& file, std::vector<int64_t> image_bytes, const RingSettings& settings,
                     std::span<std::byte> memory, Clock& clock)
    : file_(file), image_bytes_(std::move(image_bytes)), memory_(memory), clock_(clock) {
  TERN_CHECK(settings.slots >= 1 && settings.threads >= 1 && !image_bytes_.empty(),
             "ImageRing: {} slots, {} threads, {} images", settings.slots, settings.threads, image_bytes_.size());
  const int64_t alignment = file.alignment();
  int64_t offset = 0;
  for (const int64_t bytes : image_bytes_) {
    offsets_.push_back(offset);
    offset += round_up(bytes, alignment);
  }
  counts_.images.resize(image_bytes_.size());
  slots_.resize(static_cast<size_t>(slots_for(image_bytes_, settings.slots)));
  slot_bytes_ = largest_image(image_bytes_, alignment);
  TERN_CHECK(std::ssize(memory) >= slot_bytes_ * std::ssize(slots_) &&
                 reinterpret_cast<uintptr_t>(memory.data()) % static_cast<uintptr_t>(alignment) == 0,
             "ImageRing: {} bytes for {} slots of {}", memory.size(), slots_.size(), slot_bytes_);
  for (int i = 0; i < settings.threads; ++i) threads_.emplace_back([this] { work(); });
}

ImageRing::~ImageRing() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::span<std::byte> ImageRing::memory_of(int64_t turn) const {
  const size_t slot = static_cast<size_t>(turn) % slots_.size();
  const auto bytes = static_cast<size_t>(round_up(image_bytes_[image_of(turn)], file_.alignment()));
  return memory_.subspan(slot * static_cast<size_t>(slot_bytes_), bytes);
}

// The lock is held. In the order of turns, and a slot's turn comes when its last image lies in the file. As there are no more slots than
// images, an image is read again only after it was written: the turn that took its slot was read before.
void ImageRing::begin_reads() {
  for (; next_ < limit_ && !write_error_ && slot_of(next_).state == SlotState::empty; ++next_) {
    Slot& slot = slot_of(next_);
    slot = {.state = SlotState::reading, .pieces = in_pieces(moves_[image_of(next_)].reads, file_.alignment())};
    slot.left = slot.pieces.size();
    if (slot.left > 0)
      reads_.push_back(next_);
    else
      slot.state = SlotState::ready;
  }
  work_.notify_all();
}

// The lock is held. Writes come first: their slots are waited for.
bool ImageRing::take(Job& job) {
  for (const bool write : {true, false}) {
    std::deque<int64_t>& turns = write ? writes_ : reads_;
    if (turns.empty()) continue;
    Slot& slot = slot_of(turns.front());
    if (slot.next == 0) slot.begin_ns = records_ ? clock_.now_ns() : 0, slot.bytes = 0;
    job = {turns.front(), slot.pieces[slot.next++], write};
    if (slot.next == slot.pieces.size()) turns.pop_front();
    return true;
  }
  return false;
}

int64_t ImageRing::move(const Job& job) const {
  const int64_t bytes = job.piece.end - job.piece.begin, at = offsets_[image_of(job.turn)] + job.piece.begin;
  const auto memory = memory_of(job.turn).subspan(static_cast<size_t>(job.piece.begin), static_cast<size_t>(bytes));
  if (!job.write) return read_extent(file_, {0, at, bytes}, memory).read;
  write_blocks(file_, at, memory, "");
  return bytes;
}

// The lock is held.
void ImageRing::end(const Job& job, int64_t bytes, std::exception_ptr error, int64_t end_ns) {
  Slot& slot = slot_of(job.turn);
  ImageCounts::Moved& moved = counts_.images[image_of(job.turn)];
  (job.write ? moved.written_bytes : moved.read_bytes) += bytes;
  std::exception_ptr& first = job.write ? write_error_ : slot.error;
  if (error && !first) first = std::move(error);
  slot.bytes += bytes;
  if (--slot.left == 0) {
    if (records_ && slot.begin_ns != 0 && !first)
      recorded_.push_back({static_cast<int>(image_of(job.turn)), job.turn / num_images(), job.write, slot.bytes,
                           slot.begin_ns, end_ns});
    slot.state = job.write ? SlotState::empty : SlotState::ready;
    if (job.write) begin_reads();
  }
  done_.notify_all();
}

void ImageRing::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || !writes_.empty() || !reads_.empty(); });
    if (stop_) return;
    Job job;
    if (!take(job)) continue;
    lock.unlock();
    int64_t bytes = 0;
    std::exception_ptr error;
    try {
      bytes = move(job);
    } catch (...) { error = std::current_exception(); }
    const int64_t end_ns = clock_.now_ns();
    lock.lock();
    end(job, bytes, std::move(error), end_ns);
  }
}

template <class Ready>
void ImageRing::wait(std::unique_lock<std::mutex>& lock, Ready ready) {
  if (ready()) return;
  const int64_t begin_ns = clock_.now_ns();
  done_.wait(lock, ready);
  counts_.waited_ns += clock_.now_ns() - begin_ns;
}

void ImageRing::begin(std::vector<ImageMoves> moves) {
  const std::lock_guard lock(mutex_);
  TERN_CHECK(use_ == limit_ && moves.size() == image_bytes_.size(),
             "ImageRing: a pass of {} of {} images begins at turn {} of {}", moves.size(), image_bytes_.size(), use_,
             limit_);
  const int64_t alignment = file_.alignment();
  for (size_t i = 0; i < moves.size(); ++i)
    for (const std::vector<BlockRun>* runs : {&moves[i].reads, &moves[i].writes})
      for (const BlockRun& run : *runs)
        TERN_CHECK(0 <= run.begin && run.begin % alignment == 0 && run.end % alignment == 0 &&
                       run.end <= round_up(image_bytes_[i], alignment),
                   "ImageRing: bytes {} to {} of an image of {}", run.begin, run.end, image_bytes_[i]);
  if (write_error_) std::rethrow_exception(write_error_);
  moves_ = std::move(moves);
  limit_ += num_images();
  ++counts_.passes;
  begin_reads();
}

std::span<std::byte> ImageRing::acquire(int image) {
  std::unique_lock lock(mutex_);
  TERN_CHECK(use_ < limit_ && image == static_cast<int>(image_of(use_)),
             "ImageRing: image {} of {} is acquired, turn {} of {}", image, num_images(), use_, limit_);
  Slot& slot = slot_of(use_);
  TERN_CHECK(slot.state != SlotState::held, "ImageRing: image {} is held", image);
  wait(lock, [&] { return write_error_ || (use_ < next_ && slot.state == SlotState::ready); });
  if (write_error_) std::rethrow_exception(write_error_);
  if (slot.error) std::rethrow_exception(slot.error);
  slot.state = SlotState::held;
  return memory_of(use_).first(static_cast<size_t>(image_bytes_[image_of(use_)]));
}

void ImageRing::release() {
  const std::lock_guard lock(mutex_);
  Slot& slot = slot_of(use_);
  TERN_CHECK(slot.state == SlotState::held, "ImageRing: nothing is held at turn {}", use_);
  slot = {.state = SlotState::writing, .pieces = in_pieces(moves_[image_of(use_)].writes, file_.alignment())};
  slot.left = slot.pieces.size();
  if (slot.left > 0) {
    writes_.push_back(use_);
    work_.notify_all();
  } else {
    slot.state = SlotState::empty;
  }
  ++use_;
  begin_reads();
}

bool ImageRing::all_at_rest() const {
  return std::ranges::none_of(
      slots_, [](const Slot& s) { return s.state == SlotState::reading || s.state == SlotState::writing; });
}

void ImageRing::abandon() noexcept {
  std::unique_lock lock(mutex_);
  next_ = limit_;  // nothing more is begun
  reads_.clear();
  for (Slot& slot : slots_) {
    if (slot.state != SlotState::reading) continue;
    slot.left -= slot.pieces.size() - slot.next;
    slot.next = slot.pieces.size();
    if (slot.left == 0) slot.state = SlotState::ready;
  }
  wait(lock, [this] { return all_at_rest(); });
  for (Slot& slot : slots_) slot = {};
  use_ = limit_;
}

void ImageRing::settle() {
  std::unique_lock lock(mutex_);
  wait(lock,
       [this] { return std::ranges::none_of(slots_, [](const Slot& s) { return s.state == SlotState::writing; }); });
  if (write_error_) std::rethrow_exception(write_error_);
}

void ImageRing::record(bool on) {
  const std::lock_guard lock(mutex_);
  records_ = on;
}

std::vector<ImageMove> ImageRing::take_moves() {
  const std::lock_guard lock(mutex_);
  return std::exchange(recorded_, {});
}

ImageCounts ImageRing::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tern
