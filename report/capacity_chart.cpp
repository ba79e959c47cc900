#include "report/capacity_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "report/svg_impl.h"

namespace tern {
namespace {

constexpr int kBarRow = 26;

}  // namespace

std::string svg(const CapacityChart& c) {
  TERN_CHECK(!c.bars.empty(), "capacity chart: no bars");
  double most = 0;
  for (const CapacityBar& b : c.bars) {
    TERN_CHECK(b.used >= 0 && b.capacity >= 0 && std::isfinite(b.used + b.capacity), "capacity chart: {} of {}", b.used,
               b.capacity);
    most = std::max({most, b.used, b.capacity});
  }
  TERN_CHECK(c.kinds.size() <= kSvgColours, "capacity chart: {} kinds", c.kinds.size());
  const double left = kSvgLeft, right = c.width - 200, scale = most > 0 ? (right - left) / most : 0;
  const int top = c.kinds.empty() ? 34 : 56, height = top + 6 + kBarRow * static_cast<int>(c.bars.size());
  std::string out = open_svg(c.width, height, c.title) + svg_text(left, 20, "start", "title", c.title);
  out += svg_legend(c.kinds);
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

}  // namespace tern
