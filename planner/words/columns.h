#pragma once
// Text made for 120 columns and more, on a narrower terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace tern {

/// Breaks every line of more than `columns`. What labelled() (base/text.h)
/// wrapped is one paragraph again and wrapped anew, under its text, or two columns in where there are fewer than 60;
/// the row of a table goes on below its first cell, between two cells where it can. A word wider than the terminal stays
/// whole: it may be a path or an option to be copied.
std::string fit_columns(std::string_view text, size_t columns);

}  // namespace tern
