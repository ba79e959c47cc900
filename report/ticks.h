#pragma once
// Where an axis puts its marks: round numbers (1, 2 or 5 times a power of ten), powers of ten on a log scale.

#include <string>
#include <vector>

namespace tern {

/// A mark of an axis.
struct Tick {
  double value;
  std::string label;
};

/// The marks of an axis.
struct Ticks {
  double low, high;         // the axis, widened to whole ticks on a linear scale
  std::vector<Tick> ticks;  // ascending, within [low, high]
};

/// About `target` ticks over [low, high]. An empty range (low == high) is widened around the value.
/// Errors  bug: not finite, or low > high.
Ticks linear_ticks(double low, double high, int target);

/// Marks at powers of ten; at every k-th power if there are more than eight. If the range spans less than three powers, also
/// at 2 and 5 times each power; if less than one, at 1 to 9 times each power; if less than a factor of 3, at round numbers
/// as on a linear scale.
/// Errors  bug: not finite, low <= 0, or low > high.
Ticks log_ticks(double low, double high);

}  // namespace tern
