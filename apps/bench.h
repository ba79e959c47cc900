#pragma once
// `tern bench`: this machine's limits, and how close tern's own work comes. Every task is timed in turn, round after
// round, so that a neighbour's load meets all of them alike; a share is the ratio of two rates of the same round.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/json.h"

namespace tern {

/// One thing to time. `once` does about `kTaskSeconds` of work and returns its rate in `unit`.
struct BenchTask {
  std::string name;       // "matrix product bf16", "train step f32"
  std::string unit;       // "FLOP/s", "B/s"
  std::string against;    // name of the limit its rate is a share of; empty: it is a limit itself
  std::string what;       // one line: sizes, and what is counted
  double intensity = 0;   // FLOPs per byte of memory traffic, for the roofline; 0: not in it
  double per_second = 0;  // work only: natural units per unit of rate (tokens/s per FLOP/s); 0: none
  std::string natural;    // "tokens/s"; empty: none
  std::function<double()> once;
};
inline constexpr double kTaskSeconds = 0.1;
inline constexpr double kPointSeconds = 0.01;  // of one shape among hundreds

/// Calls until `seconds` have passed: `amount` of one call per second.
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
  std::string disk;          // directory to measure; empty: none
  int64_t memory_bytes = 0;  // what the buffers may take
  bool work = true;          // false: limits alone
};

/// A data cache of the first CPU, as the kernel describes it.
struct Cache {
  int level;
  int64_t bytes;
};
std::vector<Cache> read_caches();
/// Bytes that a read must pass to come from memory and not from a cache: four times the largest.
int64_t beyond_caches();

/// Limits: the matrix units per dtype (registers only), and beside them products of 1024³ by our own kernels and by
/// oneDNN; reads from each cache level, from memory by one and by all threads, and from the disk. The reads' buffer
/// lies on huge pages where there are any, as the engine's own tensors do. `notes`: caveats of the figures, for people.
/// Errors: bad_file if the disk's directory cannot be written.
std::vector<BenchTask> limit_tasks(const BenchSettings&, std::vector<std::string>& notes);
/// tern's own work on built-in models with random weights: a training step, a prompt, a decoded token, each in f32 and
/// bf16. Leaves out, with a note, what would not fit in memory_bytes beside the others and the limits' buffer.
std::vector<BenchTask> work_tasks(const BenchSettings&, std::vector<std::string>& notes);
/// Errors: usage: there is no folder to write `path` in, or it is a folder itself. Asked before anything is measured.
void check_writable(const std::string& path, const char* option);

/// A decoded token of a model so small that little but the engine's own cost is left. Unit: kernel calls per second, a
/// layer counted as kCallsPerLayer of them.
BenchTask engine_calls_task();
inline constexpr int64_t kCallsPerLayer = 9;

/// Rates of all rounds.
struct BenchResult {
  BenchTask task;              // without its function
  std::vector<double> rates;   // per round
  std::vector<double> shares;  // of `against`, per round; empty: a limit
};
/// Middle value and the quartiles around it.
struct RoundSpread {
  double low = 0, median = 0, high = 0, best = 0;
  size_t count = 0;
  bool tells() const { return count >= kLeastRounds; }  // whether there are enough values to judge their spread
  /// Whether half of the values lie within 10 % of each other: if not, the figure is noise, and nothing follows from it.
  bool conclusive() const { return tells() && median > 0 && (high - low) / median <= 0.1; }
  static constexpr size_t kLeastRounds = 3;
};
RoundSpread spread(std::vector<double>);

/// Runs every task once per round, in turn, after one warm-up each. `told` is asked before each task, with its round; false stops
/// there (the whole rounds so far count). Of limits with the same name the best of the round counts.
std::vector<BenchResult> run_rounds(const std::vector<BenchTask>&, int rounds,
                                    const std::function<bool(int round)>& told);

Json bench_json(const std::vector<BenchResult>&);
std::string bench_text(const std::vector<BenchResult>&);
/// Roofline: FLOP/s over FLOPs per byte, the roofs measured here and a point per work task. SVG.
std::string bench_roofline(const std::vector<BenchResult>&);

}  // namespace tern
