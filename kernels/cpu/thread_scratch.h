#pragma once
// Memory that a thread keeps between calls: packed factors, tiles of scores. One buffer per thread for all kernels, as
// none of them calls another while it holds it; it grows to the largest size asked for. What a kernel asks for is a
// function beside it, so that it can be counted before it is taken.

#include <algorithm>
#include <cstdint>

namespace tern {

/// At least `bytes` bytes on a cache line; contents undefined. Valid until this thread asks again.
/// Errors: std::bad_alloc.
void* thread_scratch(int64_t bytes);
/// Bytes that this thread holds.
int64_t thread_scratch_held();
/// Frees this thread's buffer, so that what the next kernels take can be measured.
void drop_thread_scratch();

/// What a kernel asks for: in the buffer of the thread that calls it, and in that of each other thread of its team.
struct ThreadBytes {
  int64_t caller = 0, worker = 0;
  int64_t total(int threads) const { return caller + (threads - 1) * worker; }
};
/// What two kernels ask for that are called one after the other: the larger of both.
inline ThreadBytes most(ThreadBytes a, ThreadBytes b) {
  return {std::max(a.caller, b.caller), std::max(a.worker, b.worker)};
}

}  // namespace tern
