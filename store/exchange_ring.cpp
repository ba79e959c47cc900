#include "store/exchange_ring.h"

#include <algorithm>

#include "base/error.h"
#include "base/rounding.h"
#include "store/read_extent.h"

namespace tern {

int ExchangeRing::slots_for(std::span<const ExchangedRecord> records, int slots) {
  return static_cast<int>(std::min<int64_t>(slots, std::ssize(records)));
}

int64_t ExchangeRing::slot_bytes_for(std::span<const ExchangedRecord> records, int64_t alignment) {
  int64_t most = 0;
  for (const ExchangedRecord& r : records) {
    int64_t bytes = 0;
    for (const Extent& e : r.extents) bytes += round_up(e.bytes, alignment);
    most = std::max(most, bytes);
  }
  return most;
}

int64_t ExchangeRing::bytes_for(std::span<const ExchangedRecord> records, int slots, int64_t alignment) {
  return slots_for(records, slots) * slot_bytes_for(records, alignment);
}

ExchangeRing::ExchangeRing(ScratchFile& file, std::vector<ExchangedRecord> records, const RingSettings& settings,
                           std::span<std::byte> memory, Clock& clock)
    : file_(file), records_(std::move(records)), memory_(memory), clock_(clock) {
  TERN_CHECK(settings.slots >= 1 && settings.threads >= 1, "ExchangeRing: {} slots, {} threads", settings.slots,
             settings.threads);
  if (records_.empty()) return;
  const int64_t alignment = file.alignment();
  for (const ExchangedRecord& r : records_)
    for (const Extent& e : r.extents)
      TERN_CHECK(e.bytes == 0 || e.offset % alignment == 0, "ExchangeRing: an extent at byte {}, in blocks of {}",
                 e.offset, alignment);
  slots_.resize(static_cast<size_t>(slots_for(records_, settings.slots)));
  slot_bytes_ = slot_bytes_for(records_, alignment);
  TERN_CHECK(std::ssize(memory) >= slot_bytes_ * std::ssize(slots_) &&
                 reinterpret_cast<uintptr_t>(memory.data()) % static_cast<uintptr_t>(alignment) == 0,
             "ExchangeRing: {} bytes for {} slots of {}", memory.size(), slots_.size(), slot_bytes_);
  for (int i = 0; i < std::min<int>(settings.threads, static_cast<int>(slots_.size())); ++i)
    threads_.emplace_back([this] { work(); });
}

ExchangeRing::~ExchangeRing() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::vector<std::span<std::byte>> ExchangeRing::blocks_of_turn(int64_t turn) const {
  const auto index = static_cast<size_t>(turn) % slots_.size();
  auto left = memory_.subspan(index * static_cast<size_t>(slot_bytes_), static_cast<size_t>(slot_bytes_));
  std::vector<std::span<std::byte>> list;
  for (const Extent& e : record_of(turn).extents) {
    const auto bytes = static_cast<size_t>(round_up(e.bytes, file_.alignment()));
    list.push_back(left.first(bytes));
    left = left.subspan(bytes);
  }
  return list;
}

// Extents that lie side by side in the file lie so in the slot too, and go in one piece.
int64_t ExchangeRing::for_each_run(int64_t turn,
                                   const std::function<int64_t(int64_t, std::span<std::byte>)>& move) const {
  const std::vector<std::span<std::byte>> blocks = blocks_of_turn(turn);
  const std::vector<Extent>& extents = record_of(turn).extents;
  int64_t moved = 0;
  for (size_t i = 0; i < blocks.size();) {
    std::span<std::byte> run = blocks[i];
    const int64_t offset = extents[i].offset;
    for (++i; i < blocks.size() && extents[i].offset == offset + std::ssize(run); ++i)
      run = {run.data(), run.size() + blocks[i].size()};
    if (!run.empty()) moved += move(offset, run);
  }
  return moved;
}

// In the order of turns, and a slot's turn comes when its last record lies in the file. As there are no more slots than records, a record
// is read again only after it was written: the turn that took its slot was read before.
bool ExchangeRing::may_read() const {
  return !write_error_ && slots_[static_cast<size_t>(next_) % slots_.size()].state == SlotState::empty;
}

void ExchangeRing::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    work_.wait(lock, [this] { return stop_ || !writes_.empty() || may_read(); });
    if (stop_) return;
    writes_.empty() ? read_one(lock) : write_one(lock);
  }
}

void ExchangeRing::read_one(std::unique_lock<std::mutex>& lock) {
  const int64_t turn = next_++;
  slot_of(turn) = {.state = SlotState::reading, .turn = turn};
  if (may_read()) work_.notify_one();
  lock.unlock();
  int64_t read = 0;
  std::exception_ptr error;
  const int64_t begin_ns = clock_.now_ns();
  try {
    read = for_each_run(turn, [this](int64_t offset, std::span<std::byte> into) {
      return read_extent(file_, {0, offset, std::ssize(into)}, into).read;
    });
  } catch (...) { error = std::current_exception(); }
  const int64_t end_ns = clock_.now_ns();
  lock.lock();
  counts_.read_bytes += read, counts_.read_ns += end_ns - begin_ns;
  Slot& slot = slot_of(turn);
  slot.state = SlotState::ready, slot.error = error;
  done_.notify_all();
}

void ExchangeRing::write_one(std::unique_lock<std::mutex>& lock) {
  const int64_t turn = writes_.front();
  writes_.pop_front();
  slot_of(turn).state = SlotState::writing;
  lock.unlock();
  int64_t written = 0;
  std::exception_ptr error;
  const int64_t begin_ns = clock_.now_ns();
  try {
    written = for_each_run(turn, [this](int64_t offset, std::span<std::byte> from) {
      write_blocks(file_, offset, from);
      return std::ssize(from);
    });
  } catch (...) { error = std::current_exception(); }
  const int64_t end_ns = clock_.now_ns();
  lock.lock();
  counts_.written_bytes += written, counts_.written_ns += end_ns - begin_ns;
  slot_of(turn).state = SlotState::empty;
  if (error && !write_error_) write_error_ = error;
  done_.notify_all();
  work_.notify_all();
}

std::vector<std::span<std::byte>> ExchangeRing::acquire(int record) {
  std::unique_lock lock(mutex_);
  TERN_CHECK(!records_.empty() && record == static_cast<int>(use_ % num_records()),
             "ExchangeRing: record {} of {} is acquired, turn {}", record, num_records(), use_);
  Slot& slot = slot_of(use_);
  TERN_CHECK(slot.state != SlotState::held, "ExchangeRing: record {} is held", record);
  const auto there = [&] { return write_error_ || (slot.turn == use_ && slot.state == SlotState::ready); };
  if (!there()) {
    const int64_t begin_ns = clock_.now_ns();
    done_.wait(lock, there);
    counts_.waited_ns += clock_.now_ns() - begin_ns;
  }
  if (write_error_) std::rethrow_exception(write_error_);
  if (slot.error) std::rethrow_exception(slot.error);
  slot.state = SlotState::held;
  ++counts_.used;
  std::vector<std::span<std::byte>> bytes = blocks_of_turn(use_);
  for (size_t i = 0; i < bytes.size(); ++i) {
    const int64_t own = record_of(use_).extents[i].bytes;
    bytes[i] = bytes[i].first(static_cast<size_t>(own));
    counts_.used_bytes += own;
  }
  return bytes;
}

void ExchangeRing::release() {
  {
    const std::lock_guard lock(mutex_);
    Slot& slot = slot_of(use_);
    TERN_CHECK(slot.state == SlotState::held, "ExchangeRing: nothing is held at turn {}", use_);
    slot.state = SlotState::changed;
    writes_.push_back(use_++);
  }
  work_.notify_one();
}

bool ExchangeRing::settled() const {
  return std::ranges::none_of(
      slots_, [](const Slot& s) { return s.state == SlotState::changed || s.state == SlotState::writing; });
}

void ExchangeRing::settle() {
  std::unique_lock lock(mutex_);
  if (!settled()) {
    const int64_t begin_ns = clock_.now_ns();
    done_.wait(lock, [this] { return settled(); });
    counts_.waited_ns += clock_.now_ns() - begin_ns;
  }
  if (write_error_) std::rethrow_exception(write_error_);
}

ExchangeCounts ExchangeRing::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace tern
