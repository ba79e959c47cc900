#include "store/extent_ring.h"

#include <algorithm>

#include "base/error.h"
#include "base/pages.h"
#include "base/rounding.h"
#include "store/read_extent.h"

namespace tern {
namespace {

int64_t largest(std::span<const Extent> order) {
  int64_t most = 0;
  for (const Extent& e : order) most = std::max(most, e.bytes);
  return most;
}

}  // namespace

RingWindow window_of(const RingSettings& settings) {
  return settings.window.blocks.empty() ? RingWindow{.blocks = {}, .resident = settings.slots} : settings.window;
}

int64_t CyclicRing::allocation_for(std::span<const Extent> order, int slots, int64_t alignment) {
  constexpr auto kHuge = static_cast<int64_t>(kHugePage);
  const int64_t bytes = bytes_for(order, slots, alignment) + alignment, last = bytes % kHuge;
  return bytes >= kHuge / 2 && last >= kHuge / 4 ? bytes - last + kHuge : bytes;
}

int64_t CyclicRing::bytes_for(std::span<const Extent> order, int slots, int64_t alignment) {
  return order.empty() ? 0 : slots * room_for(largest(order), alignment);
}

CyclicRing::CyclicRing(BlockFiles& files, std::vector<Extent> order, const RingSettings& settings,
                       std::span<std::byte> memory, Clock& clock)
    : files_(files),
      order_(std::move(order)),
      settings_(settings),
      turns_(window_of(settings), num_places()),
      memory_(memory),
      clock_(clock) {
  TERN_CHECK(settings.slots >= 1 && settings.threads >= 1, "CyclicRing: {} slots, {} threads", settings.slots,
             settings.threads);
  TERN_CHECK(settings.slots >= slots_for(window_of(settings)), "CyclicRing: {} slots, its window has {}",
             settings.slots, slots_for(window_of(settings)));
  if (order_.empty()) return;
  slots_.resize(static_cast<size_t>(settings.slots));
  slot_bytes_ = room_for(largest(order_), files.alignment());
  TERN_CHECK(static_cast<int64_t>(memory.size()) >= slot_bytes_ * settings.slots &&
                 reinterpret_cast<uintptr_t>(memory.data()) % static_cast<uintptr_t>(files.alignment()) == 0,
             "CyclicRing: {} bytes for {} slots of {}", memory.size(), settings.slots, slot_bytes_);
  for (int i = 0; i < std::min(settings.threads, settings.slots); ++i) threads_.emplace_back([this] { read_ahead(); });
}

CyclicRing::~CyclicRing() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  free_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CyclicRing::may_read() const {
  if (next_ >= turns_.read_end(use_)) return false;
  if (!settings_.cyclic && next_ >= num_places()) return false;
  return !slots_[static_cast<size_t>(next_) % slots_.size()].busy;
}

// What was passed over is not waited for.
bool CyclicRing::may_lend(int64_t turn) {
  for (int64_t t = turn; t < turns_.lent_end(turn); ++t)
    if (const Slot& slot = slot_of(t); !(slot.turn == t && slot.ready)) return false;
  return true;
}

void CyclicRing::read_ahead() {
  std::unique_lock lock(mutex_);
  while (true) {
    free_.wait(lock, [this] { return stop_ || may_read(); });
    if (stop_) return;
    const int64_t turn = next_++;
    Slot& slot = slot_of(turn);
    slot = {.turn = turn, .busy = true};
    const auto index = static_cast<size_t>(turn) % slots_.size();
    const auto into = memory_.subspan(index * static_cast<size_t>(slot_bytes_), static_cast<size_t>(slot_bytes_));
    lock.unlock();
    ReadExtent read;
    std::exception_ptr error;
    const int64_t begin_ns = clock_.now_ns();
    try {
      read = read_extent(files_, extent_of(turn), into);
    } catch (...) { error = std::current_exception(); }
    const int64_t end_ns = clock_.now_ns();
    lock.lock();
    counts_.read_bytes += read.read;
    if (records_)
      reads_.push_back(
          {static_cast<int>(turn % num_places()), turn, round_up(read.read, files_.alignment()), begin_ns, end_ns});
    slot.busy = false, slot.ready = true, slot.bytes = read.bytes, slot.error = error;
    ready_.notify_all();
    if (slot.turn < use_) free_.notify_all();  // it was passed over meanwhile
  }
}

std::span<const std::byte> CyclicRing::acquire(int place) {
  TERN_CHECK(0 <= place && place < num_places(), "CyclicRing: place {} of {}", place, num_places());
  std::unique_lock lock(mutex_);
  const int64_t asked_ns = records_ ? clock_.now_ns() : 0;
  TERN_CHECK(!held_, "CyclicRing: place {} is acquired before the last one was released", place);
  const int64_t at = use_ % num_places(), turn = use_ + (place - at + num_places()) % num_places();
  TERN_CHECK(settings_.cyclic || turn < num_places(), "CyclicRing: place {} comes but once", place);
  if (turn > use_) {
    counts_.skipped += std::min(turn, next_) - use_;
    use_ = turn;
    next_ = std::max(next_, turn);
    free_.notify_all();
  }
  Slot& slot = slot_of(turn);
  if (!may_lend(turn)) {
    const int64_t begin_ns = clock_.now_ns();
    ready_.wait(lock, [&] { return may_lend(turn); });
    counts_.waited_ns += clock_.now_ns() - begin_ns;
  }
  if (slot.error) std::rethrow_exception(slot.error);
  held_ = true;
  if (records_) leases_.push_back({place, turn, asked_ns, clock_.now_ns(), 0});
  ++counts_.used, counts_.used_bytes += static_cast<int64_t>(slot.bytes.size());
  return slot.bytes;
}

void CyclicRing::release(int) noexcept {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
    if (records_ && !leases_.empty() && leases_.back().turn == use_) leases_.back().end_ns = clock_.now_ns();
    ++use_;
  }
  settings_.window.blocks.empty() ? free_.notify_one() : free_.notify_all();  // a block frees several slots
}

RingCounts CyclicRing::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void CyclicRing::record(bool on) {
  const std::lock_guard lock(mutex_);
  records_ = on;
}

std::vector<RingRead> CyclicRing::take_reads() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reads_, {});
}

std::vector<RingLease> CyclicRing::take_leases() {
  const std::lock_guard lock(mutex_);
  const bool open = held_ && !leases_.empty() && leases_.back().end_ns == 0;
  std::vector<RingLease> rest;
  if (open) rest.push_back(leases_.back()), leases_.pop_back();
  return std::exchange(leases_, std::move(rest));
}

}  // namespace tern
