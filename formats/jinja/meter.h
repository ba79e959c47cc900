#pragma once
// What bounds one rendering, and how it fails: steps, bytes moved, bytes held, depth.

#include <cstddef>
#include <cstdint>
#include <string>

#include "formats/jinja/jinja.h"

namespace tern::jinja {

/// What a failing rendering throws inside; render() adds place and line.
struct Failure {
  JinjaFault fault;
  std::string reason;
  int line = 0;
};
[[noreturn]] void fail(JinjaFault fault, std::string reason);
[[noreturn]] void type_error(std::string reason);

/// The bounds of one rendering, and what is used of them.
class Meter {
 public:
  explicit Meter(const JinjaLimits& limits) : limits_(limits) {}
  void step();
  void work(size_t bytes);
  void hold(int64_t bytes);  // negative: let go
  void enter();              // one level deeper
  void leave() { --depth_; }
  void check_text(size_t bytes) const;  // before a string of this size is made
  const JinjaLimits& limits() const { return limits_; }

 private:
  JinjaLimits limits_;
  int64_t steps_ = 0, work_ = 0, held_ = 0;
  int depth_ = 0;
};
struct Level {  // RAII of enter and leave
  explicit Level(Meter& m) : meter(m) { meter.enter(); }
  ~Level() { meter.leave(); }
  Level(const Level&) = delete;
  Meter& meter;
};
/// Memory of one object, given back when it goes. No meter: constants and variables.
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
