#include "report/bar_chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/svg_impl.h"

namespace tern {

std::string svg(const BarChart& chart) {
  TERN_CHECK(!chart.bars.empty(), "chart '{}': no bars", chart.title);
  double highest = 0;
  size_t longest = 0;
  for (const Bar& bar : chart.bars) {
    TERN_CHECK(std::isfinite(bar.value) && bar.value >= 0, "chart '{}': a bar of {}", chart.title, bar.value);
    highest = std::max(highest, bar.value);
    longest = std::max(longest, bar.name.size());
  }
  const int height = 44 + 30 * static_cast<int>(chart.bars.size());
  const double left = std::min(16 + 7.0 * static_cast<double>(longest), chart.width * 0.5);
  const double room = chart.width - left - 200;  // 200: the value and its note, to the right of the longest bar
  std::string out = open_svg(chart.width, height, chart.title) + svg_text(8, 20, "start", "title", chart.title);
  for (size_t b = 0; b < chart.bars.size(); ++b) {
    const Bar& bar = chart.bars[b];
    const double y = 36 + 30.0 * static_cast<double>(b), length = highest > 0 ? room * bar.value / highest : 0;
    out += svg_text(left - 6, y + 15, "end", "ink", bar.name);
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" class=\"f{}\"/>\n", left, y,
                       length, b % kSvgColours);
    out += svg_text(left + length + 6, y + 15, "start", "soft",
                    fmt::format("{:.4g}{}{}{}{}", bar.value, chart.unit.empty() ? "" : " ", chart.unit,
                                bar.note.empty() ? "" : ", ", bar.note));
  }
  return out + "</svg>\n";
}

}  // namespace tern
