#pragma once
// Fits text made for 120 columns or more to a narrower terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace tern {

/// Breaks every line that is wider than `columns`. A paragraph that labelled() (base/text.h) wrapped is joined and
/// wrapped anew, indented as its text was, or by two columns if `columns` is below 60. A row of a table is broken
/// between two cells if possible, and continues below its first cell. A word wider than the terminal stays whole: it may
/// be a path or an option to be copied.
std::string fit_columns(std::string_view text, size_t columns);

}  // namespace tern
