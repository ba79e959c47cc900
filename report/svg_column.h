#pragma once
// Several SVG pictures as one.

#include <string>
#include <vector>

namespace tern {

/// One picture with several pictures below each other, under a title and lines of text. `pictures`: results of svg(…).
/// Errors  bug: a text that is not such a picture.
std::string svg_column(const std::string& title, const std::vector<std::string>& lines,
                       const std::vector<std::string>& pictures);

}  // namespace tern
