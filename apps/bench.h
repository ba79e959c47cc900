#pragma once
// The tasks of `tern bench`. They measure this machine's limits, and how close tern's own work comes to them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"

namespace tern {

/// One thing to time. `once` works for about kTaskSeconds seconds and returns the rate in `unit`.
struct BenchTask {
  std::string name;       // "matrix product bf16", "train step f32"
  std::string unit;       // "FLOP/s", "B/s"
  std::string against;    // name of the limit that the rate is compared with; empty: the task is a limit
  std::string what;       // a line for people: sizes, and what is counted
  double intensity = 0;   // FLOPs per byte of memory traffic, for the roofline; 0: not in the roofline
  double per_second = 0;  // rate in `natural` per rate in `unit` (tokens/s per FLOP/s); 0: no `natural`
  std::string natural;    // a unit that users know, "tokens/s"; empty: there is none
  std::function<double()> once;
};
inline constexpr double kTaskSeconds = 0.1;
inline constexpr double kPointSeconds = 0.01;  // in place of kTaskSeconds, for a task that is one of hundreds
/// Calls `call` again and again until `seconds` have passed, and returns the rate per second, where one call counts as `amount`.
template <class Call>
double rate_of(double amount, double seconds, Call call) {
  Clock& clock = real_clock();
  const int64_t begin = clock.now_ns();
  int64_t now = begin;
  double done = 0;
  do {
    call();
    done += amount;
    now = clock.now_ns();
  } while (seconds_between(begin, now) < seconds);
  return done / seconds_between(begin, now);
}

struct BenchSettings {
  int rounds = 7;
  std::string disk;          // the directory whose disk is measured; empty: none
  int64_t memory_bytes = 0;  // the most that the buffers may take
  bool work = true;          // false: only limits are measured
  std::string more_memory;   // what would let the memory read pass all caches, in words; empty: more --memory
};

/// A data cache of the first CPU, as the kernel describes it.
struct Cache {
  int level;
  int64_t bytes;
};
std::vector<Cache> read_caches();
/// The least bytes of a buffer whose reads come from memory and not from a cache: four times the largest cache.
int64_t beyond_caches();

/// The tasks that measure limits: the matrix units of each dtype (registers only); products of 1024³ by tern's kernels and by
/// oneDNN; reads from each cache level, and from memory by one and by all threads; reads and writes of the disk. The buffer
/// lies on huge pages if there are any, as the engine's tensors do. Adds caveats for people to `notes`.
/// Errors: bad_file: the disk's directory cannot be written; does_not_fit: memory_bytes leave less than 64 MiB for the buffer.
std::vector<BenchTask> limit_tasks(const BenchSettings&, std::vector<std::string>& notes);
/// The tasks of tern's own work, on built-in models with random weights: a training step, a prompt, a decoded token, each in f32 and bf16. A task
/// that would not fit in memory_bytes beside the others and the limits' buffer is left out, and a note says so.
std::vector<BenchTask> work_tasks(const BenchSettings&, std::vector<std::string>& notes);
/// Decodes tokens with a model so small that nearly all of the time is the engine's own cost. Unit: kernel calls per second;
/// each layer, and the head, counts as kCallsPerLayer calls.
BenchTask engine_calls_task();
inline constexpr int64_t kCallsPerLayer = 9;

}  // namespace tern
