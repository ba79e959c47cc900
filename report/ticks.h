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

/// Powers of ten; 2 and 5 between them within three powers, every digit within one; round linear numbers
/// for less than a factor 3.
/// Errors  bug: not finite, low <= 0, or low > high.
Ticks log_ticks(double low, double high);

}  // namespace tern
