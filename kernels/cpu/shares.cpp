#include "kernels/cpu/shares.h"

#include <algorithm>
#include <atomic>

namespace tern {

void share_tasks(int64_t count, int64_t threads, TaskShares& shares) {
  const int64_t number = shares.number = std::clamp(std::min(threads, count), int64_t{1}, TaskShares::kMost);
  for (int64_t i = 0; i < number; ++i) shares.of[i] = {count * i / number, count * (i + 1) / number};
}

TaskRange take_tasks(TaskShares& shares, int64_t member, int64_t most) {
  for (int64_t i = 0; i < shares.number; ++i) {
    TaskShares::Share& share = shares.of[(member + i) % shares.number];
    const std::atomic_ref next(share.next);
    int64_t begin = next.load(std::memory_order_relaxed);
    while (begin < share.end) {
      const int64_t end = begin + std::clamp((share.end - begin) / 4, int64_t{1}, most);
      if (next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) return {begin, end};
    }
  }
  return {};
}

}  // namespace tern
