#pragma once
// How long a step takes, by the number of rows that it computes. It is learned as the engine runs.

#include <array>
#include <cstdint>

namespace tern {

/// Typical seconds by number of rows, over the last `memory` steps. Older steps are forgotten, so that one slow step on a busy machine, or texts of
/// another length, do not count for long.
class StepTimes {
 public:
  static constexpr int64_t kMemory = 128, kLongMemory = 4096;
  explicit StepTimes(int64_t memory = kMemory) : memory_(memory) {}
  void observe(int64_t rows, double seconds);
  /// The expected seconds of a step, interpolated between numbers of rows that were seen. Beyond the most rows seen it is optimistic, so that more
  /// rows are tried: each further row is taken to cost half of what a further row costs on average between the fewest and the
  /// most rows seen. If only one number of rows was seen, each further row is taken to cost a tenth of what a row cost there.
  double estimate(int64_t rows) const;
  /// Whether steps of `rows` rows, or hardly fewer, were seen lately.
  bool knows(int64_t rows) const;
  /// The most rows that a step should try: twice the most rows that were seen lately.
  int64_t hoped() const;

 private:
  struct Entry {
    int64_t rows = 0, step = 0;
    double seconds = -1;  // < 0: never seen
  };
  bool is_fresh(const Entry& e) const { return e.seconds >= 0 && steps_ - e.step <= memory_; }

  std::array<Entry, 128> entries_;  // up to 16 rows one each, then eight for each doubling
  int64_t steps_ = 0, memory_;
};

}  // namespace tern
