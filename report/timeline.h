#pragma once
// Rows of coloured spans over time as stand-alone SVG text, in the style of plot.h.

#include <string>
#include <vector>

namespace tern {

/// A span of time with a colour.
struct TimelineSpan {
  double begin = 0, end = 0;
  int kind = 0;  // index of Timeline::kinds
};
/// A row of spans.
struct TimelineRow {
  std::string name;
  std::vector<TimelineSpan> spans;  // in order of time, without overlap
};
/// Rows over one axis of time.
struct Timeline {
  std::string title = {}, unit = "s";
  std::vector<std::string> kinds = {};  // legend; at most six colours
  std::vector<TimelineRow> rows = {};
  double end = 0;  // of the axis
  int width = 900, row_height = 22;
};
/// Draws each span at least half a pixel wide. Successive spans of one kind are drawn as one if the next begins less than
/// half a pixel after the end of what is drawn so far, and less than 1.5 pixels after its beginning.
/// Errors  bug: no rows, end not positive, a span outside 0 … end or of an unknown kind, more than six kinds.
std::string svg(const Timeline&);

}  // namespace tern
