#pragma once
// Where an axis puts its marks: round numbers (1, 2 or 5 times a power of ten), powers of ten on a log scale.

#include <string>
#include <vector>

namespace tern {

struct Tick {
  double value;
  std::string label;
};

struct Ticks {
  double low, high;         // the axis, widened to whole ticks on a linear scale
  std::vector<Tick> ticks;  // ascending, within [low, high]
};

/// About `target` ticks over [low, high]. An empty range (low == high) is widened around the value.
/// Errors  bug: not finite, or low > high.
Ticks linear_ticks(double low, double high, int target);

/// Powers of ten (of more than eight not every one). Within three powers 2 and 5 times each too, within one every digit; below
/// a factor of 3 round numbers as on a linear scale.
/// Errors  bug: not finite, low <= 0, or low > high.
Ticks log_ticks(double low, double high);

}  // namespace tern
