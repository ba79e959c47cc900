#include "report/ticks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tern {
namespace {

// The step 1, 2 or 5 times a power of ten next to `rough`, as mantissa and exponent so that ticks are exact multiples.
struct Step {
  int mantissa, exponent;
  double value() const { return mantissa * std::pow(10.0, exponent); }
};

Step round_step(double rough) {
  const int exponent = static_cast<int>(std::floor(std::log10(rough)));
  const double fraction = rough / std::pow(10.0, exponent);
  if (fraction <= 1.0) return {1, exponent};
  if (fraction <= 2.0) return {2, exponent};
  if (fraction <= 5.0) return {5, exponent};
  return {1, exponent + 1};
}

// As many decimals as the step needs; thousands and millions as in 2k, 1.5M; the exponent form outside.
std::string linear_label(double value, int step_exponent) {
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size >= 1e12 || size < 1e-5) return fmt::format("{:g}", value);
  for (const auto& [unit, letter] : {std::pair{1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (size >= unit && size >= 1e4) {
      const int decimals = std::clamp(static_cast<int>(std::round(std::log10(unit))) - step_exponent, 0, 6);
      return fmt::format("{:.{}f}{}", value / unit, decimals, letter);
    }
  return fmt::format("{:.{}f}", value, std::clamp(-step_exponent, 0, 9));
}

std::string power_label(double value) {
  return value >= 0.999e-3 && value < 1e4 ? fmt::format("{:g}", value) : fmt::format("{:.0e}", value);
}

void check_range(double low, double high) {
  TERN_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high, "ticks: a range of {} to {}", low, high);
}

}  // namespace

Ticks linear_ticks(double low, double high, int target) {
  check_range(low, high);
  TERN_CHECK(target >= 1, "ticks: {} ticks", target);
  // A range too narrow for doubles to tell its ticks apart counts as empty.
  if (high - low <= 1e-12 * std::max(std::abs(low), std::abs(high))) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.5;
    low -= margin;
    high += margin;
  }
  const Step step = round_step((high - low) / target);
  const double unit = step.value();
  const double first = std::floor(low / unit + 1e-9), last = std::ceil(high / unit - 1e-9);
  Ticks ticks{first * unit, last * unit, {}};
  for (double k = first; k <= last; k += 1) ticks.ticks.push_back({k * unit, linear_label(k * unit, step.exponent)});
  return ticks;
}

Ticks log_ticks(double low, double high) {
  check_range(low, high);
  TERN_CHECK(low > 0, "ticks: {} on a logarithmic scale", low);
  if (high / low < 3) {  // too narrow for powers: round numbers, placed logarithmically
    Ticks linear = linear_ticks(low, high, 4);
    std::erase_if(linear.ticks, [](const Tick& tick) { return tick.value <= 0; });
    linear.low = linear.ticks.front().value;
    return linear;
  }
  Ticks ticks{low, high, {}};
  const int first = static_cast<int>(std::floor(std::log10(low))), last = static_cast<int>(std::ceil(std::log10(high)));
  const double decades = std::log10(high / low);
  const int stride = std::max(1, static_cast<int>(std::ceil(decades / 8)));
  const std::vector<int> mantissas = decades < 1   ? std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8, 9}
                                     : decades < 3 ? std::vector<int>{1, 2, 5}
                                                   : std::vector<int>{1};
  for (int exponent = first; exponent <= last; exponent += stride)
    for (const int mantissa : mantissas) {
      const double value = mantissa * std::pow(10.0, exponent);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) ticks.ticks.push_back({value, power_label(value)});
    }
  return ticks;
}

}  // namespace tern
