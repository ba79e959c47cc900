#pragma once
// Deals the tasks of a parallel region to its threads. A thread takes those of its own share in order, so that memory is read on from where it
// was, then what is left of the others' shares: one that lost its core for a while holds up the others by the tasks it took last.
// Plain data and functions that are compiled once: files of one instruction set call them, too.

#include <cstdint>

namespace tern {

struct TaskRange {
  int64_t begin = 0, end = 0;  // empty: no task is left
};
struct TaskShares {
  static constexpr int64_t kMost = 64;  // shares; more threads help others with theirs
  struct alignas(64) Share {
    int64_t next, end;
  };
  Share of[kMost];
  int64_t number;
};
/// Shares of the tasks [0, count) for a region of so many threads, which begins afterwards.
void share_tasks(int64_t count, int64_t threads, TaskShares&);
/// Up to `most` tasks for thread `member` of the region; ever fewer towards a share's end, so that all end together. Thread-safe.
TaskRange take_tasks(TaskShares&, int64_t member, int64_t most);

}  // namespace tern
