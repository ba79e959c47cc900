#pragma once
// What bounds one rendering, and how it fails: steps, bytes moved, bytes held, depth.

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/jinja/jinja.h"

namespace tern::jinja {

/// What a failing rendering throws within the engine; render() makes a JinjaError of it, with place and line.
struct Failure {
  JinjaFault fault;
  std::string reason;
  int line = 0;
};
/// Throws a Failure.
[[noreturn]] void fail(JinjaFault fault, std::string reason);
/// Throws a Failure of the fault runtime.
[[noreturn]] void type_error(std::string reason);

/// The bounds of one rendering, and how much of them is used. Errors of its functions: Failure of the fault limit.
class Meter {
 public:
  explicit Meter(const JinjaLimits& limits) : limits_(limits) {}
  void step();               // a statement, a turn of a loop, a call
  void work(size_t bytes);   // moved or compared
  void hold(int64_t bytes);  // bytes of values; negative: they are gone
  void enter();              // one level deeper
  void leave() { --depth_; }
  void check_text(size_t bytes) const;  // before a string of this size is made
  const JinjaLimits& limits() const { return limits_; }

 private:
  JinjaLimits limits_;
  int64_t steps_ = 0, work_ = 0, held_ = 0;
  int depth_ = 0;
};
/// Enters a level, and leaves it when it is destroyed.
struct Level {
  explicit Level(Meter& m) : meter(m) { meter.enter(); }
  ~Level() { meter.leave(); }
  Level(const Level&) = delete;
  Meter& meter;
};
/// Counts the memory of one object until it is destroyed. Without a meter (constants, variables) nothing is counted.
class Held {
 public:
  Held() = default;
  Held(Meter* meter, size_t bytes) : meter_(meter), bytes_(static_cast<int64_t>(bytes)) {
    if (meter_) meter_->hold(bytes_);
  }
  ~Held() {
    if (meter_) meter_->hold(-bytes_);
  }
  Held(const Held&) = delete;

 private:
  Meter* meter_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace tern::jinja
