#include "report/svg_impl.h"

#include <fmt/core.h>

#include <array>

#include "report/html.h"

namespace tern {
namespace {

// After Okabe & Ito: colours that the colour-blind can tell apart, darker on white and lighter on black. Plain rules
// and no CSS variables, which viewers other than browsers do not know.
struct Palette {
  const char *ink, *soft, *grid, *back;
  std::array<const char*, 6> series;
};
constexpr Palette kLight = {
    "#1d2228", "#5b6670", "#e3e7ea", "#ffffff", {"#0072b2", "#d55e00", "#009e73", "#b0508a", "#a87800", "#56799e"}};
constexpr Palette kDark = {
    "#e4e8ec", "#9aa6b1", "#2b333b", "#14181c", {"#56b4e9", "#f08a4b", "#3fc79b", "#e08cc0", "#e0b83d", "#9dbbdc"}};
static_assert(kLight.series.size() == kSvgColours);

std::string rules(const Palette& p) {
  std::string css = fmt::format(
      ".tern-plot text {{ fill: {0}; }} .tern-plot .soft {{ fill: {1}; }} .tern-plot .axis {{ stroke: {1}; }}\n"
      ".tern-plot .grid {{ stroke: {2}; }} .tern-plot .back {{ fill: {3}; }} .tern-plot .track {{ fill: {2}; }}\n",
      p.ink, p.soft, p.grid, p.back);
  for (size_t i = 0; i < kSvgColours; ++i)
    css += fmt::format(".tern-plot .s{0} {{ stroke: {1}; }} .tern-plot .f{0} {{ fill: {1}; }}\n", i, p.series[i]);
  return css;
}

std::string style() {
  return "<style>\n.tern-plot { font: 12px system-ui, sans-serif; }\n"
         ".tern-plot .title { font-weight: 600; font-size: 14px; }\n"
         ".tern-plot .line { fill: none; stroke-width: 1.8; stroke-linejoin: round; }\n" +
         rules(kLight) + "@media (prefers-color-scheme: dark) {\n" + rules(kDark) + "}\n</style>\n";
}

}  // namespace

std::string open_svg(int width, int height, std::string_view title) {
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tern-plot\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 "
             "{0} "
             "{1}\" role=\"img\" aria-label=\"{2}\">\n",
             width, height, html_escape(title)) +
         style() + fmt::format("<rect class=\"back\" width=\"{}\" height=\"{}\"/>\n", width, height);
}

std::string svg_text(double x, double y, const char* anchor, const char* css, std::string_view text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y, anchor, css,
                     html_escape(text));
}

std::string svg_line(double x1, double y1, double x2, double y2, const char* css) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1, x2, y2,
                     css);
}

std::string svg_legend(const std::vector<std::string>& kinds) {
  std::string out;
  double x = kSvgLeft;
  for (size_t k = 0; k < kinds.size(); ++k) {
    out += fmt::format("<rect class=\"f{}\" x=\"{:.0f}\" y=\"33\" width=\"11\" height=\"11\"/>\n", k, x) +
           svg_text(x + 16, 43, "start", "soft", kinds[k]);
    x += 34 + 7.0 * static_cast<double>(kinds[k].size());
  }
  return out;
}

}  // namespace tern
