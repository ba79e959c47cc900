#include "report/svg_column.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/error.h"
#include "report/svg_impl.h"

namespace tern {
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
