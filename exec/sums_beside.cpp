#include "exec/sums_beside.h"

#include <algorithm>
#include <utility>

namespace tern {

SumsBeside::~SumsBeside() {
  const std::scoped_lock lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

void SumsBeside::post(size_t place, std::vector<Buffer> reads, std::function<void()> sum) {
  {
    const std::scoped_lock lock(mutex_);
    sums_.push_back({std::move(reads), std::move(sum), {.place = place}});
  }
  ++posted_;
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::jthread([this] { run(); });
}

std::vector<SummedBeside> SumsBeside::wait() { return take(posted_ - told_); }

std::vector<SummedBeside> SumsBeside::wait_for(std::span<const Buffer> buffers) {
  size_t least = 0;
  {
    const std::scoped_lock lock(mutex_);
    for (size_t k = 0; k < sums_.size(); ++k)
      if (std::ranges::any_of(sums_[k].reads, [&](const Buffer& b) { return std::ranges::count(buffers, b) > 0; }))
        least = k + 1;
  }
  return take(least);
}

std::vector<SummedBeside> SumsBeside::take(size_t least) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return failure_ || ended_ >= least; });
  if (failure_) std::rethrow_exception(failure_);
  std::vector<SummedBeside> list;
  for (; ended_ > 0; --ended_, ++told_) {
    list.push_back(sums_.front().told);
    sums_.pop_front();
  }
  return list;
}

// On the thread of the sums. A deque's elements stay where they are while others come and go at its ends.
void SumsBeside::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stops_ || ended_ < sums_.size(); });
    if (stops_) return;
    Posted& next = sums_[ended_];
    lock.unlock();
    std::exception_ptr failure;
    try {
      const LinkBytes before = world_->bytes();
      next.told.begin_ns = clock_.now_ns();
      next.sum();
      next.told.end_ns = clock_.now_ns();
      const LinkBytes after = world_->bytes();
      next.told.links = {after.sent - before.sent, after.received - before.received};
    } catch (...) { failure = std::current_exception(); }
    lock.lock();
    if (failure) {
      failure_ = std::move(failure);
      changed_.notify_all();
      return;
    }
    ++ended_;
    changed_.notify_all();
  }
}

}  // namespace tern
