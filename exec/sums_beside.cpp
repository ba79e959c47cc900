#include "exec/sums_beside.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tern {

void SumsBeside::post(size_t place, std::vector<Buffer> reads, std::function<void()> sum) {
  Posted& posted = sums_.emplace_back(Posted{std::move(reads), std::move(sum), {.place = place}});
  ++posted_;
  thread_.post([this, &posted] {
    const LinkBytes before = world_->bytes();
    posted.told.begin_ns = clock_.now_ns();
    posted.sum();
    posted.told.end_ns = clock_.now_ns();
    const LinkBytes after = world_->bytes();
    posted.told.links = {after.sent - before.sent, after.received - before.received};
  });
}

std::vector<SummedBeside> SumsBeside::wait() { return take(posted_ - told_); }

std::vector<SummedBeside> SumsBeside::wait_for(std::span<const Buffer> buffers) {
  size_t least = 0;
  for (size_t k = 0; k < sums_.size(); ++k)
    if (std::ranges::any_of(sums_[k].reads, [&](const Buffer& b) { return std::ranges::count(buffers, b) > 0; }))
      least = k + 1;
  return take(least);
}

std::vector<SummedBeside> SumsBeside::take(size_t least) {
  const size_t ended = thread_.wait(told_ + least);
  if (const std::exception_ptr failure = thread_.failure()) std::rethrow_exception(failure);
  std::vector<SummedBeside> list;
  for (; told_ < ended; ++told_) {
    list.push_back(sums_.front().told);
    sums_.pop_front();
  }
  return list;
}

}  // namespace tern
