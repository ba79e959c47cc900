#pragma once
// Line plots as stand-alone SVG text: axes, ticks, legend, linear or logarithmic scale. Colours follow
// the reader's light or dark setting. Points whose value a scale cannot show (NaN, or not positive on a log scale)
// break the line and are counted in a note under the plot: nothing is left out silently.

#include <string>
#include <vector>

namespace tern {

/// How values lie along an axis.
enum class Scale { linear, log };

/// An axis of a plot.
struct Axis {
  std::string label = {};
  Scale scale = Scale::linear;
  bool whole = false;  // linear: ticks at whole numbers only, for values that count something
};

/// A curve.
struct Series {
  std::string name;
  std::vector<double> x, y;  // of equal lengths; the line joins the points in this order
  bool points = false;       // mark each point too, for a series of few points
  bool dashed = false;
};

/// Curves over common axes.
struct LinePlot {
  std::string title = {};
  Axis x = {}, y = {};
  std::vector<Series> series = {};
  int width = 720, height = 380;  // CSS pixels
};

/// Errors  bug: no series, x and y of unequal lengths, a size under 200 x 120.
std::string svg(const LinePlot& plot);

}  // namespace tern
