#pragma once
// Bar charts as stand-alone SVG text, in the style of plot.h.

#include <string>
#include <vector>

namespace tern {

/// A bar from zero to its value.
struct Bar {
  std::string name;
  double value = 0;
  std::string note = {};  // printed after the value
};

/// Horizontal bars with the value beside each.
struct BarChart {
  std::string title = {}, unit = {};
  std::vector<Bar> bars = {};
  int width = 720;
};
/// Errors  bug: no bars, a value that is negative or not finite.
std::string svg(const BarChart& chart);

}  // namespace tern
