#include "report/plot.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "report/html.h"
#include "report/svg_impl.h"
#include "report/ticks.h"

namespace tern {
namespace {

bool showable(double value, Scale scale) { return std::isfinite(value) && (scale == Scale::linear || value > 0); }

// The plane of the plot: values to pixels.
constexpr double kLegendRow = 18;

struct Plane {
  double left, right, top, bottom;
  Ticks x, y;
  Scale x_scale, y_scale;

  static double fraction(double value, const Ticks& ticks, Scale scale) {
    return scale == Scale::log ? std::log(value / ticks.low) / std::log(ticks.high / ticks.low)
                               : (value - ticks.low) / (ticks.high - ticks.low);
  }
  double px(double value) const { return left + (right - left) * fraction(value, x, x_scale); }
  double py(double value) const { return bottom - (bottom - top) * fraction(value, y, y_scale); }
};

bool point_shows(const LinePlot& plot, const Series& series, size_t i) {
  return showable(series.x[i], plot.x.scale) && showable(series.y[i], plot.y.scale);
}

Ticks axis_ticks(const LinePlot& plot, bool horizontal) {
  const Scale scale = horizontal ? plot.x.scale : plot.y.scale;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const Series& series : plot.series)
    for (size_t i = 0; i < series.x.size(); ++i) {
      if (!point_shows(plot, series, i)) continue;
      const double value = horizontal ? series.x[i] : series.y[i];
      low = std::min(low, value);
      high = std::max(high, value);
    }
  if (low > high) low = high = 1;  // nothing to show: an empty plane, and the note below says how many were left out
  if (scale == Scale::log) return log_ticks(low, high);
  int target = horizontal ? 7 : 5;
  if ((horizontal ? plot.x : plot.y).whole) {  // no more ticks than whole numbers
    low = std::floor(low), high = std::max(std::ceil(high), low + 1);
    target = static_cast<int>(std::min<double>(target, high - low));
  }
  return linear_ticks(low, high, target);
}

std::string axes(const LinePlot& plot, const Plane& plane) {
  std::string out;
  for (const Tick& tick : plane.y.ticks) {
    const double y = plane.py(tick.value);
    out += svg_line(plane.left, y, plane.right, y, "grid") + svg_text(plane.left - 6, y + 4, "end", "soft", tick.label);
  }
  for (const Tick& tick : plane.x.ticks) {
    const double x = plane.px(tick.value);
    out += svg_line(x, plane.bottom, x, plane.bottom + 4, "axis") +
           svg_text(x, plane.bottom + 17, "middle", "soft", tick.label);
  }
  out += svg_line(plane.left, plane.bottom, plane.right, plane.bottom, "axis");
  out += svg_text((plane.left + plane.right) / 2, plane.bottom + 36, "middle", "soft", plot.x.label);
  const double middle = (plane.top + plane.bottom) / 2;
  return out +
         fmt::format(
             "<text transform=\"translate(14 {:.1f}) rotate(-90)\" text-anchor=\"middle\" class=\"soft\">{}</text>\n",
             middle, html_escape(plot.y.label));
}

// A line breaks where a point cannot be shown; a piece of one point is drawn as a dot, or it would be invisible.
std::string curve(const LinePlot& plot, const Plane& plane, const Series& series, size_t index) {
  std::string out, points;
  size_t length = 0;
  const size_t colour = index % kSvgColours;
  const auto dot = [&](size_t i) {
    return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"f{}\"/>\n", plane.px(series.x[i]),
                       plane.py(series.y[i]), colour);
  };
  const auto end_piece = [&](size_t end) {
    if (length == 1 && !series.points) out += dot(end - 1);
    if (length > 1)
      out += fmt::format("<polyline class=\"line s{}\"{} points=\"{}\"/>\n", colour,
                         series.dashed ? " stroke-dasharray=\"6 4\"" : "", points);
    points.clear();
    length = 0;
  };
  for (size_t i = 0; i < series.x.size(); ++i) {
    if (!point_shows(plot, series, i)) {
      end_piece(i);
      continue;
    }
    points += fmt::format("{}{:.1f},{:.1f}", length ? " " : "", plane.px(series.x[i]), plane.py(series.y[i]));
    ++length;
    if (series.points) out += dot(i);
  }
  end_piece(series.x.size());
  return out;
}

// Of a series with many points per pixel column, the first, lowest, highest and last of each column, in their order:
// the picture is the same and the file stays small. A break in the line stays a break.
Series thinned(const LinePlot& plot, const Plane& plane, const Series& series) {
  Series out{series.name, {}, {}, series.points, series.dashed};
  const auto keep = [&](size_t i) { out.x.push_back(series.x[i]), out.y.push_back(series.y[i]); };
  for (size_t begin = 0, end; begin < series.x.size(); begin = end) {
    end = begin + 1;
    if (!point_shows(plot, series, begin)) {
      keep(begin);
      continue;
    }
    const auto column = [&](size_t i) { return std::floor(plane.px(series.x[i])); };
    size_t lowest = begin, highest = begin;
    for (; end < series.x.size() && point_shows(plot, series, end) && column(end) == column(begin); ++end) {
      if (series.y[end] < series.y[lowest]) lowest = end;
      if (series.y[end] > series.y[highest]) highest = end;
    }
    size_t last = begin;
    keep(begin);
    for (const size_t i : {std::min(lowest, highest), std::max(lowest, highest), end - 1})
      if (i > last) keep(last = i);
  }
  return out;
}

bool wants_thinning(const LinePlot& plot, const Series& series) {
  return series.x.size() > 4 * static_cast<size_t>(plot.width);
}

// Where the name of each series stands: rows as long as the plot is wide.
struct LegendPlace {
  double x;
  int row;
};
std::vector<LegendPlace> legend_places(const LinePlot& plot, double left, double right) {
  std::vector<LegendPlace> places;
  LegendPlace place{left, 0};
  for (const Series& series : plot.series) {
    const double width =
        26 + 7.0 * static_cast<double>(series.name.size());  // 7 px: a generous letter of the 12 px font
    if (place.x > left && place.x + width > right) place = {left, place.row + 1};
    places.push_back(place);
    place.x += width + 18;
  }
  return places;
}

std::string legend(const LinePlot& plot, const std::vector<LegendPlace>& places) {
  std::string out;
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    const double x = places[s].x, y = 42 + kLegendRow * places[s].row;
    if (series.points && series.x.size() == 1)
      out +=
          fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" class=\"f{}\"/>\n", x + 10, y - 4, s % kSvgColours);
    else
      out += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" class=\"line s{3}\"{4}/>\n",
                         x, y - 4, x + 20, s % kSvgColours, series.dashed ? " stroke-dasharray=\"6 4\"" : "");
    out += svg_text(x + 26, y, "start", "ink", series.name);
  }
  return out;
}

std::string notes(const LinePlot& plot) {
  const bool thin =
      std::any_of(plot.series.begin(), plot.series.end(), [&](const Series& s) { return wants_thinning(plot, s); });
  const std::string thin_note = thin ? "many points: each pixel shows its lowest and highest" : "";
  size_t count = 0;
  for (const Series& series : plot.series)
    for (size_t i = 0; i < series.x.size(); ++i) count += !point_shows(plot, series, i);
  if (count == 0) return thin_note;
  const bool log = plot.x.scale == Scale::log || plot.y.scale == Scale::log;
  return fmt::format("{} point{} not shown: not a finite number{}{}{}", count, count == 1 ? "" : "s",
                     log ? ", or not positive on a logarithmic axis" : "", thin ? "; " : "", thin_note);
}

}  // namespace

std::string svg(const LinePlot& plot) {
  TERN_CHECK(!plot.series.empty(), "plot '{}': no series", plot.title);
  TERN_CHECK(plot.width >= 200 && plot.height >= 120, "plot '{}': {} x {} pixels", plot.title, plot.width, plot.height);
  for (const Series& series : plot.series)
    TERN_CHECK(series.x.size() == series.y.size(), "plot '{}': '{}' has {} x and {} y", plot.title, series.name,
               series.x.size(), series.y.size());
  const double left = 64, right = plot.width - 16.0;
  const std::vector<LegendPlace> places = legend_places(plot, left, right);
  const Plane plane{left,
                    right,
                    56 + kLegendRow * places.back().row,
                    plot.height - 60.0,
                    axis_ticks(plot, true),
                    axis_ticks(plot, false),
                    plot.x.scale,
                    plot.y.scale};
  std::string out = open_svg(plot.width, plot.height, plot.title);
  out += svg_text(plane.left, 20, "start", "title", plot.title);
  out += legend(plot, places) + axes(plot, plane);
  for (size_t s = 0; s < plot.series.size(); ++s) {
    const Series& series = plot.series[s];
    out += curve(plot, plane, wants_thinning(plot, series) ? thinned(plot, plane, series) : series, s);
  }
  const std::string note = notes(plot);
  if (!note.empty()) out += svg_text(plane.right, plot.height - 6, "end", "soft", note);
  return out + "</svg>\n";
}

}  // namespace tern
