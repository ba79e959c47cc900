#pragma once
// Several SVG pictures as one.

#include <string>
#include <vector>

namespace tern {

/// A picture that shows pictures of svg(…) one below the other, under a title and lines of text. Errors  bug: a text
/// that is none of these pictures.
std::string svg_column(const std::string& title, const std::vector<std::string>& lines,
                       const std::vector<std::string>& pictures);

}  // namespace tern
