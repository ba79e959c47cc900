#include "base/clock.h"

#include <cerrno>
#include <ctime>

namespace tern {
namespace {

int64_t read_clock(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return static_cast<int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec;
}

class RealClock : public Clock {
 public:
  int64_t now_ns() const override { return read_clock(CLOCK_MONOTONIC); }
  int64_t wall_ns() const override { return read_clock(CLOCK_REALTIME); }
  void sleep_ns(int64_t duration_ns) override {
    if (duration_ns <= 0) return;
    timespec left = {static_cast<time_t>(duration_ns / 1'000'000'000), static_cast<long>(duration_ns % 1'000'000'000)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {}
  }
};

}  // namespace

Clock& real_clock() {
  static RealClock clock;
  return clock;
}

}  // namespace tern
