#include "report/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/svg_impl.h"
#include "report/ticks.h"

namespace tern {
namespace {

constexpr double kLeft = kSvgLeft, kRight = 16, kTop = 62, kThinnest = 0.5;

// The spans of a row as one path per kind: far smaller than a rectangle each.
std::string row_paths(const Timeline& t, const TimelineRow& row, double y, double scale) {
  std::vector<std::string> paths(t.kinds.size());
  const double height = t.row_height - 4;
  const auto draw = [&](int kind, double from, double to) {
    paths[static_cast<size_t>(kind)] +=
        fmt::format("M{:.1f} {:.1f}h{:.1f}v{:.0f}h-{:.1f}z", from, y, to - from, height, to - from);
  };
  int kind = -1;
  double from = 0, to = 0;
  for (const TimelineSpan& s : row.spans) {
    TERN_CHECK(s.kind >= 0 && s.kind < static_cast<int>(t.kinds.size()) && s.begin >= 0 && s.end >= s.begin &&
                   s.end <= t.end * (1 + 1e-9),
               "timeline: a span of kind {} from {} to {} in 0 to {}", s.kind, s.begin, s.end, t.end);
    const double begin = kLeft + s.begin * scale, end = std::max(kLeft + s.end * scale, begin + kThinnest);
    if (kind == s.kind && begin - from < kThinnest + 1 && begin - to < kThinnest) {
      to = std::max(to, end);
      continue;
    }
    if (kind >= 0) draw(kind, from, to);
    kind = s.kind, from = begin, to = end;
  }
  if (kind >= 0) draw(kind, from, to);
  std::string out;
  for (size_t k = 0; k < paths.size(); ++k)
    if (!paths[k].empty()) out += fmt::format("<path class=\"f{} span\" d=\"{}\"/>\n", k, paths[k]);
  return out;
}

}  // namespace

std::string svg(const Timeline& t) {
  TERN_CHECK(!t.rows.empty() && t.end > 0 && std::isfinite(t.end) && t.kinds.size() <= kSvgColours,
             "timeline: {} rows to {} with {} kinds", t.rows.size(), t.end, t.kinds.size());
  const double right = t.width - kRight, bottom = kTop + t.row_height * static_cast<double>(t.rows.size());
  Ticks ticks = linear_ticks(0, t.end, 8);
  const double scale = (right - kLeft) / t.end;
  std::string out = open_svg(t.width, static_cast<int>(bottom) + 42, t.title);
  out += svg_text(kLeft, 20, "start", "title", t.title);
  out += svg_legend(t.kinds);
  for (const Tick& tick : ticks.ticks) {
    if (tick.value > t.end * (1 + 1e-9)) continue;
    const double at = kLeft + tick.value * scale;
    out += svg_line(at, kTop - 4, at, bottom, "grid") + svg_text(at, bottom + 15, "middle", "soft", tick.label);
  }
  out += svg_text((kLeft + right) / 2, bottom + 33, "middle", "soft", t.unit);
  for (size_t r = 0; r < t.rows.size(); ++r) {
    const double y = kTop + t.row_height * static_cast<double>(r);
    out += svg_text(kLeft - 8, y + t.row_height - 9, "end", "soft", t.rows[r].name);
    out += row_paths(t, t.rows[r], y, scale);
  }
  return out + "</svg>\n";
}

}  // namespace tern
