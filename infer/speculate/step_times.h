#pragma once
// How long a step takes, by the rows it computes: learned as the engine runs.

#include <array>
#include <cstdint>

namespace tern {

/// Typical seconds by number of rows, of the last `memory` steps: what is older is forgotten, so that one slow step on a
/// busy machine, or another length of the texts, does not decide for long.
class StepTimes {
 public:
  static constexpr int64_t kMemory = 128, kLongMemory = 4096;
  explicit StepTimes(int64_t memory = kMemory) : memory_(memory) {}
  void observe(int64_t rows, double seconds);
  /// Seconds of a step: interpolated between numbers of rows that were seen. Beyond the most rows seen it is optimistic, so
  /// that more rows are tried: a further row is taken to cost half of what further rows have cost; where only one number of
  /// rows was seen, a tenth of what a row cost there.
  double estimate(int64_t rows) const;
  /// Whether steps of so many rows, or hardly fewer, were seen lately.
  bool knows(int64_t rows) const;
  /// Twice the most rows seen lately: no step tries more at once.
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
