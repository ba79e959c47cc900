#include "formats/jinja/meter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tern::jinja {

void fail(JinjaFault fault, std::string reason) { throw Failure{fault, std::move(reason)}; }
void type_error(std::string reason) { fail(JinjaFault::runtime, std::move(reason)); }

void Meter::step() {
  if (++steps_ > limits_.max_steps)
    fail(JinjaFault::limit, fmt::format("more than {} steps; an endless loop?", limits_.max_steps));
  work(32);
}

void Meter::work(size_t bytes) {
  const int64_t left = limits_.max_work - work_;
  if (bytes > static_cast<size_t>(std::max<int64_t>(left, 0)))
    fail(JinjaFault::limit, fmt::format("more than {} bytes moved or compared", limits_.max_work));
  work_ += static_cast<int64_t>(bytes);
}

void Meter::hold(int64_t bytes) {
  held_ += bytes;
  if (bytes > 0 && held_ > limits_.max_memory_bytes) {
    held_ -= bytes;  // the object that asked is not made
    fail(JinjaFault::limit, fmt::format("more than {} bytes of values", limits_.max_memory_bytes));
  }
}

void Meter::enter() {
  if (depth_ >= limits_.depth) fail(JinjaFault::limit, fmt::format("nested more than {} deep", limits_.depth));
  ++depth_;
}

void Meter::check_text(size_t bytes) const {
  if (bytes > limits_.max_output_bytes)
    fail(JinjaFault::limit, fmt::format("a text of {} bytes; at most {}", bytes, limits_.max_output_bytes));
}

}  // namespace tern::jinja
