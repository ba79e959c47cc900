#include "store/pass_time.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

// The disk, which reads one extent after the other, in the order of turns.
class DiskOfPasses {
 public:
  DiskOfPasses(std::span<const PassStep> steps, const RingWindow& window)
      : loads_(loads_of(steps)), turns_(window, static_cast<int>(loads_.size())) {}
  // When all that is lent with `turn` is there. The products before it have ended at `used`.
  int64_t lent(int64_t turn, const std::vector<int64_t>& used) {
    for (auto t = static_cast<int64_t>(ends_.size()); t < turns_.lent_end(turn); ++t) {
      const int64_t by = turns_.freed_by(t), begin = by < 0 ? 0 : used[static_cast<size_t>(by)];
      free_ = std::max(free_, begin) + loads_[static_cast<size_t>(t) % loads_.size()];
      ends_.push_back(free_);
    }
    return ends_[static_cast<size_t>(turns_.lent_end(turn)) - 1];
  }
  int64_t end_of(int64_t turn) const { return ends_[static_cast<size_t>(turn)]; }

 private:
  static std::vector<int64_t> loads_of(std::span<const PassStep> steps) {
    std::vector<int64_t> loads;
    for (const PassStep& step : steps)
      if (step.load_ps > 0) loads.push_back(step.load_ps);
    return loads;
  }
  std::vector<int64_t> loads_;  // of a pass
  RingTurns turns_;
  std::vector<int64_t> ends_;  // of each turn
  int64_t free_ = 0;
};

RingWindow of_slots(int slots) { return {.blocks = {}, .resident = slots}; }

}  // namespace

PassTimes pass_times(std::span<const PassStep> steps, const RingWindow& window, int passes) {
  DiskOfPasses disk(steps, window);
  PassTimes times;
  std::vector<int64_t> used;  // when the product of each streamed step ended
  int64_t done = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (const PassStep& step : steps) {
      const bool streams = step.load_ps > 0;
      const auto turn = static_cast<int64_t>(used.size());
      if (streams) done = std::max(done, disk.lent(turn, used));
      done += step.forward_ps;
      if (streams) used.push_back(done);
      times.load_end_ps.push_back(streams ? disk.end_of(turn) : 0);
      times.forward_end_ps.push_back(done);
    }
  times.end_ps = done;
  return times;
}
PassTimes pass_times(std::span<const PassStep> steps, int slots, int passes) {
  return pass_times(steps, of_slots(slots), passes);
}

int64_t steady_pass_ps(std::span<const PassStep> steps, const RingWindow& window) {
  if (steps.empty()) return 0;
  // The ring has as many slots as what it remembers of passes before; two more let it settle.
  const int fill = slots_for(window) / static_cast<int>(steps.size()) + 2, measured = 4;
  const PassTimes times = pass_times(steps, window, fill + measured);
  const size_t n = steps.size();
  return (times.end_ps - times.forward_end_ps[n * static_cast<size_t>(fill) - 1]) / measured;
}
int64_t steady_pass_ps(std::span<const PassStep> steps, int slots) { return steady_pass_ps(steps, of_slots(slots)); }

}  // namespace tern
