#pragma once
// Rows of coloured spans over time, and bars of use against capacity, as stand-alone SVG text. Colours follow the
// reader's light or dark setting, as in plot.h.

#include <string>
#include <vector>

namespace tern {

struct TimelineSpan {
  double begin = 0, end = 0;
  int kind = 0;  // index of Timeline::kinds
};
struct TimelineRow {
  std::string name;
  std::vector<TimelineSpan> spans;  // rising, none over another
};
struct Timeline {
  std::string title = {}, unit = "s";
  std::vector<std::string> kinds = {};  // legend; at most six colours
  std::vector<TimelineRow> rows = {};
  double end = 0;  // of the axis
  int width = 900, row_height = 22;
};
/// Spans thinner than half a pixel are joined with their neighbours of the same kind, and shown at that width at least.
/// Errors  bug: no rows, end not positive, a span outside 0 … end or of an unknown kind, more than six kinds.
std::string svg(const Timeline&);

struct CapacityBar {
  std::string name;
  double used = 0, capacity = 0;
  std::string note = {};           // "62.8 of 71.7 GiB"
  std::vector<double> parts = {};  // of `used`, by CapacityChart::kinds; empty: one colour
};
struct CapacityChart {
  std::string title = {};
  std::vector<CapacityBar> bars = {};
  std::vector<std::string> kinds = {};  // legend of the parts; at most six colours
  int width = 900;
};
/// Each bar against its own capacity; what is over capacity is marked. Errors  bug: no bars, numbers below zero, parts
/// that are not one of each kind or not the whole, more than six kinds.
std::string svg(const CapacityChart&);

/// Pictures of svg(…) under each other, with a title and lines of text above: one picture.
std::string svg_column(const std::string& title, const std::vector<std::string>& lines,
                       const std::vector<std::string>& pictures);

}  // namespace tern
