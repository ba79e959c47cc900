#pragma once
// An interface for time, so that tests of code that waits need not wait themselves.

#include <atomic>
#include <cstdint>

namespace tern {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;   // monotonic; the start is arbitrary
  virtual int64_t wall_ns() const = 0;  // since 1970-01-01 UTC
  virtual void sleep_ns(int64_t) = 0;
};

/// The system's clocks; thread-safe.
Clock& real_clock();

/// A clock that stands still until advance_ns or sleep_ns moves it. Thread-safe.
class VirtualClock : public Clock {
 public:
  explicit VirtualClock(int64_t wall_start_ns = 1'700'000'000'000'000'000) : wall_start_ns_(wall_start_ns) {}
  int64_t now_ns() const override { return now_ns_.load(); }
  int64_t wall_ns() const override { return wall_start_ns_ + now_ns(); }
  void sleep_ns(int64_t duration_ns) override { advance_ns(duration_ns); }
  void advance_ns(int64_t duration_ns) { now_ns_ += duration_ns; }

 private:
  int64_t wall_start_ns_;
  std::atomic<int64_t> now_ns_ = 0;
};

inline double seconds_between(int64_t begin_ns, int64_t end_ns) {
  return static_cast<double>(end_ns - begin_ns) * 1e-9;
}

}  // namespace tern
