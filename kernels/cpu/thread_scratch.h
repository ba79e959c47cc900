#pragma once
// Scratch memory that a thread keeps between calls, for packed factors or tiles of scores. All kernels share one buffer per thread, as none
// of them calls another while it uses the buffer. The buffer grows to the largest size asked for. A function beside each kernel returns the
// bytes that the kernel will ask for, so that memory can be counted before it is taken.

#include <algorithm>
#include <cstdint>

namespace tern {

/// At least `bytes` bytes that begin on a cache line; contents undefined. Valid until this thread asks again.
/// Errors: std::bad_alloc.
void* thread_scratch(int64_t bytes);
/// Bytes that this thread holds.
int64_t thread_scratch_held();
/// Frees this thread's buffer, so that what the next kernels take can be measured.
void drop_thread_scratch();

/// Bytes that a kernel asks for: `caller` in the buffer of the thread that calls it, `worker` in that of each other thread of its team.
struct ThreadBytes {
  int64_t caller = 0, worker = 0;
  int64_t total(int threads) const { return caller + (threads - 1) * worker; }
};
/// Bytes that suffice for two kernels, one called after the other: the larger `caller` and the larger `worker`.
inline ThreadBytes most(ThreadBytes a, ThreadBytes b) {
  return {std::max(a.caller, b.caller), std::max(a.worker, b.worker)};
}

}  // namespace tern
