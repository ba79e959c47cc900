#include "infer/speculate/step_times.h"

#include <algorithm>
#include <bit>

namespace tern {
namespace {

constexpr double kHope = 0.1, kNear = 0.25;

size_t place_of(int64_t rows, size_t places) {
  if (rows <= 16) return static_cast<size_t>(std::max<int64_t>(rows, 0));
  const int octave = std::bit_width(static_cast<uint64_t>(rows)) - 1;  // 4 for 16 to 31
  const int64_t eighth = (rows >> (octave - 3)) & 7;
  return std::min(static_cast<size_t>(17 + (octave - 4) * 8 + eighth), places - 1);
}

}  // namespace

void StepTimes::observe(int64_t rows, double seconds) {
  Entry& e = entries_[place_of(rows, entries_.size())];
  ++steps_;
  if (!is_fresh(e)) {
    e.seconds = seconds;
  } else {  // a step that was held up moves it little, one that was quick more: nothing makes a step too quick
    const double off = seconds - e.seconds;
    e.seconds += 0.2 * std::clamp(off, -e.seconds, 0.25 * e.seconds);
  }
  e.rows = rows, e.step = steps_;
}

double StepTimes::estimate(int64_t rows) const {
  const Entry *first = nullptr, *low = nullptr, *high = nullptr;
  for (const Entry& e : entries_) {
    if (!is_fresh(e)) continue;
    if (!first) first = &e;
    if (e.rows <= rows) low = &e;
    if (e.rows >= rows && !high) high = &e;
  }
  const auto n = static_cast<double>(rows);
  if (!low && !high) return 0;
  if (!low) return high->seconds * (0.5 + 0.5 * n / static_cast<double>(high->rows));
  const auto from = static_cast<double>(low->rows);
  if (!high) {
    double row = kHope * low->seconds / std::max(from, 1.0);
    if (first != low)
      row = std::max(0.0, 0.5 * (low->seconds - first->seconds) / (from - static_cast<double>(first->rows)));
    return low->seconds + row * (n - from);
  }
  if (high == low) return low->seconds;
  return low->seconds + (high->seconds - low->seconds) * (n - from) / (static_cast<double>(high->rows) - from);
}

bool StepTimes::knows(int64_t rows) const {
  return std::ranges::any_of(entries_, [&](const Entry& e) {
    return is_fresh(e) && e.rows <= rows && static_cast<double>(rows - e.rows) <= kNear * static_cast<double>(rows);
  });
}

int64_t StepTimes::hoped() const {
  int64_t most = 0;
  for (const Entry& e : entries_)
    if (is_fresh(e)) most = std::max(most, e.rows);
  return 2 * most;
}

}  // namespace tern
