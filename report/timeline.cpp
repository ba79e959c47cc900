#include "report/timeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/svg_impl.h"
#include "report/ticks.h"

namespace tern {
namespace {

constexpr double kLeft = 96, kRight = 16, kTop = 62, kThinnest = 0.5;
constexpr int kBarRow = 26;

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

// Colours and names in one line under the title.
std::string legend(const std::vector<std::string>& kinds) {
  std::string out;
  double x = kLeft;
  for (size_t k = 0; k < kinds.size(); ++k) {
    out += fmt::format("<rect class=\"f{}\" x=\"{:.0f}\" y=\"33\" width=\"11\" height=\"11\"/>\n", k, x) +
           svg_text(x + 16, 43, "start", "soft", kinds[k]);
    x += 34 + 7.0 * static_cast<double>(kinds[k].size());
  }
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
  out += legend(t.kinds);
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

std::string svg(const CapacityChart& c) {
  TERN_CHECK(!c.bars.empty(), "capacity chart: no bars");
  double most = 0;
  for (const CapacityBar& b : c.bars) {
    TERN_CHECK(b.used >= 0 && b.capacity >= 0 && std::isfinite(b.used + b.capacity), "capacity chart: {} of {}", b.used,
               b.capacity);
    most = std::max({most, b.used, b.capacity});
  }
  TERN_CHECK(c.kinds.size() <= kSvgColours, "capacity chart: {} kinds", c.kinds.size());
  const double left = kLeft, right = c.width - 200, scale = most > 0 ? (right - left) / most : 0;
  const int top = c.kinds.empty() ? 34 : 56, height = top + 6 + kBarRow * static_cast<int>(c.bars.size());
  std::string out = open_svg(c.width, height, c.title) + svg_text(left, 20, "start", "title", c.title);
  out += legend(c.kinds);
  for (size_t i = 0; i < c.bars.size(); ++i) {
    const CapacityBar& b = c.bars[i];
    const double y = top + kBarRow * static_cast<double>(i);
    const char* colour = b.used > b.capacity ? "f1" : "f0";
    out += svg_text(left - 8, y + 13, "end", "soft", b.name);
    out += fmt::format("<rect class=\"track\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"18\"/>\n", left, y,
                       b.capacity * scale);
    const auto bar = [&](std::string_view css, double from, double bytes) {
      out += fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"18\"/>\n", css,
                         left + from * scale, y, bytes * scale);
    };
    if (b.parts.empty()) bar(colour, 0, b.used);
    double from = 0;
    for (size_t k = 0; k < b.parts.size(); from += b.parts[k++])
      if (b.parts[k] > 0) bar(fmt::format("f{}", k), from, b.parts[k]);
    TERN_CHECK(b.parts.empty() || (b.parts.size() == c.kinds.size() && std::abs(from - b.used) <= 1e-9 * b.used),
               "capacity chart: {} parts of {} kinds, {} of {}", b.parts.size(), c.kinds.size(), from, b.used);
    out += svg_line(left + b.capacity * scale, y - 3, left + b.capacity * scale, y + 21, "axis");
    out += svg_text(left + std::max(b.used, b.capacity) * scale + 8, y + 13, "start", "soft",
                    b.used > b.capacity ? b.note + " (over)" : b.note);
  }
  return out + "</svg>\n";
}

namespace {

// A number of the picture's own first tag.
int attribute(const std::string& picture, const std::string& name) {
  const size_t at = picture.find(name + "=\"");
  TERN_CHECK(picture.rfind("<svg ", 0) == 0 && at != std::string::npos, "svg column: no picture");
  return std::stoi(picture.substr(at + name.size() + 2));
}

}  // namespace

std::string svg_column(const std::string& title, const std::vector<std::string>& lines,
                       const std::vector<std::string>& pictures) {
  int width = 200, height = 30 + 18 * static_cast<int>(lines.size());
  std::string inside;
  for (const std::string& p : pictures) {
    inside += fmt::format("<svg y=\"{}\" {}", height, p.substr(5));
    width = std::max(width, attribute(p, "width")), height += attribute(p, "height");
  }
  std::string out = open_svg(width, height, title) + svg_text(16, 20, "start", "title", title);
  for (size_t i = 0; i < lines.size(); ++i)
    out += svg_text(16, 40 + 18 * static_cast<double>(i), "start", "soft", lines[i]);
  return out + inside + "</svg>\n";
}

}  // namespace tern
