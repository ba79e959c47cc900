#include "store/image_pass_time.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

// When a read ends that begins at `begin`: writes that run meanwhile take the disk from it.
int64_t end_of_read(const ImagePassTimes& times, std::span<const ImageStep> steps, size_t first_write, size_t image,
                    int64_t begin) {
  int64_t end = begin + steps[image].read_ps;
  for (size_t i = first_write; i < image; ++i) {
    const int64_t written = times.written_ps[i], from = written - steps[i].write_ps;
    if (from < end && written > begin) end += written - std::max(from, begin);
  }
  return end;
}

}  // namespace

ImagePassTimes image_pass_times(std::span<const ImageStep> steps, int64_t after_ps, int slots) {
  TERN_CHECK(slots >= 1, "image_pass_times: {} slots", slots);
  ImagePassTimes times;
  const size_t ring = std::min(static_cast<size_t>(slots), steps.size());
  int64_t done = 0;        // of work
  int64_t reads_free = 0;  // the end of the read before
  int64_t writes_free = 0;
  int64_t turn = 0;  // when the read may begin: turns come in order
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i >= ring) turn = std::max(turn, times.written_ps[i - ring]);
    int64_t arrival = turn;
    if (steps[i].read_ps > 0)
      arrival = reads_free = end_of_read(times, steps, i >= ring ? i - ring : 0, i, std::max(turn, reads_free));
    done = std::max(done + steps[i].before_ps, arrival);
    times.acquired_ps.push_back(done);
    done += steps[i].held_ps;
    times.released_ps.push_back(done);
    if (steps[i].write_ps > 0) writes_free = std::max(writes_free, done) + steps[i].write_ps;
    times.written_ps.push_back(steps[i].write_ps > 0 ? writes_free : done);
  }
  times.end_ps = std::max(done + after_ps, writes_free);
  return times;
}

}  // namespace tern
