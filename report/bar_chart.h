#pragma once
// Bar charts as stand-alone SVG text, in the style of plot.h.

#include <string>
#include <vector>

namespace tern {

struct Bar {
  std::string name;
  double value = 0;
  std::string note = {};  // printed after the value
};

/// Horizontal bars from zero, the value beside each. Values must be finite and not negative.
struct BarChart {
  std::string title = {}, unit = {};
  std::vector<Bar> bars = {};
  int width = 720;
};
std::string svg(const BarChart& chart);

}  // namespace tern
