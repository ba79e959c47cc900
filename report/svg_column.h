#pragma once
// Several SVG pictures as one.

#include <string>
#include <vector>

namespace tern {

/// Pictures of svg(…) under each other, with a title and lines of text above: one picture.
std::string svg_column(const std::string& title, const std::vector<std::string>& lines,
                       const std::vector<std::string>& pictures);

}  // namespace tern
