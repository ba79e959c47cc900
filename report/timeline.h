#pragma once
// Rows of coloured spans over time as stand-alone SVG text, in the style of plot.h.

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

}  // namespace tern
