#pragma once
// What all pictures of report/ share: the styles for light and dark settings, texts and lines.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

constexpr size_t kSvgColours = 6;  // classes f0 … f5 (fill) and s0 … s5 (stroke)

/// The x at which rows begin, in pixels. Their names stand to the left of it.
constexpr double kSvgLeft = 96;

/// The opening tag with style and title. Sizes in pixels.
std::string open_svg(int width, int height, std::string_view title);
/// A text and a line at these positions, in pixels. `css`: the class of the element.
std::string svg_text(double x, double y, const char* anchor, const char* css, std::string_view text);
std::string svg_line(double x1, double y1, double x2, double y2, const char* css);
/// The legend: the colours and names of `kinds` in one line under the title, from kSvgLeft on.
std::string svg_legend(const std::vector<std::string>& kinds);

}  // namespace tern
