#include "store/pass_time.h"

#include <algorithm>

#include "base/error.h"

namespace tern {

PassTimes pass_times(std::span<const PassStep> steps, int slots, int passes) {
  TERN_CHECK(slots >= 1, "pass_times: {} slots", slots);
  PassTimes times;
  std::vector<int64_t> freed;  // when the product of each streamed step ended
  int64_t disk_free = 0, done = 0;
  for (int pass = 0; pass < passes; ++pass)
    for (const PassStep& step : steps) {
      int64_t arrival = 0;
      if (step.load_ps > 0) {
        const size_t n = freed.size(), ring = static_cast<size_t>(slots);
        const int64_t slot_free = n < ring ? 0 : freed[n - ring];
        arrival = disk_free = std::max(disk_free, slot_free) + step.load_ps;
      }
      done = std::max(done, arrival) + step.forward_ps;
      if (step.load_ps > 0) freed.push_back(done);
      times.load_end_ps.push_back(arrival);
      times.forward_end_ps.push_back(done);
    }
  times.end_ps = done;
  return times;
}

int64_t steady_pass_ps(std::span<const PassStep> steps, int slots) {
  if (steps.empty()) return 0;
  // The ring has as many slots as what it remembers of passes before; two more let it settle.
  const int fill = slots / static_cast<int>(steps.size()) + 2, measured = 4;
  const PassTimes times = pass_times(steps, slots, fill + measured);
  const size_t n = steps.size();
  return (times.end_ps - times.forward_end_ps[n * static_cast<size_t>(fill) - 1]) / measured;
}

}  // namespace tern
