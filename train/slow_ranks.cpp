#include "train/slow_ranks.h"

#include <fmt/format.h>

#include <algorithm>

namespace tern {
namespace {

constexpr size_t kWatchedSteps = 10, kLongerSteps = 9;
constexpr double kSlow = 1.5, kLonger = 1.3, kFastAgain = 1.2, kLeastSeconds = 0.1;

// Of an even number the lesser of the two in the middle: of two ranks one is the measure of the other.
double middle_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[(values.size() - 1) / 2];
}

}  // namespace

double pass_seconds(std::span<const TraceEvent> trace) {
  double seconds = 0;
  for (const TraceEvent& e : trace)
    if (e.op == Opcode::forward || e.op == Opcode::backward_input || e.op == Opcode::backward_weight ||
        e.op == Opcode::recompute)
      seconds += e.duration_s;
  return seconds;
}

std::optional<std::string> SlowRanks::add(std::span<const double> seconds) {
  if (alike_ < 2) return {};
  told_.resize(seconds.size());
  steps_.emplace_back(seconds.begin(), seconds.end());
  if (steps_.size() > kWatchedSteps) steps_.pop_front();
  if (steps_.size() < kWatchedSteps) return {};
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    const size_t first = rank - rank % static_cast<size_t>(alike_);
    double own = 0, others = 0;
    size_t longer = 0;
    for (const std::vector<double>& step : steps_) {
      const auto begin = step.begin() + static_cast<std::ptrdiff_t>(first);
      const double usual = middle_of({begin, begin + alike_});
      own += step[rank], others += usual;
      longer += step[rank] > kLonger * usual;
    }
    if (own < kFastAgain * others) told_[rank] = false;
    if (told_[rank] || own < kSlow * others || longer < kLongerSteps || own - others < kLeastSeconds) continue;
    told_[rank] = true;
    return fmt::format(
        "rank {} computes slower than those that do the same work: {:.1f} times as long in the last {} steps, without "
        "its messages; all wait for it",
        rank, own / others, kWatchedSteps);
  }
  return {};
}

}  // namespace tern
