#pragma once
// Small helpers on text: splitting, wrapping, and "did you mean".

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

std::string_view trim(std::string_view);                                // blanks, tabs, line ends
std::string lowercase(std::string_view);                                // ASCII
std::string uppercase(std::string_view);                                // ASCII
std::vector<std::string_view> split(std::string_view, char separator);  // "" gives one empty part
std::vector<std::string_view> split_words(std::string_view);            // at blanks; no empty parts
std::string join(const std::vector<std::string>& parts, std::string_view separator);
std::string replace_all(std::string text, std::string_view from, std::string_view to);
/// Control characters and invalid UTF-8 made harmless for a terminal or a message.
std::string make_printable(std::string_view);
/// Columns that valid UTF-8 takes on a terminal: its code points.
size_t display_width(std::string_view);
/// Breaks at blanks into lines of at most `width` columns; longer words stand alone.
std::vector<std::string> wrap_text(std::string_view, size_t width);
/// "tied       2 within 2 %", wrapped for a terminal of 120 columns: the label stands in a column 10 wide, the text in one
/// to the right of it. With an empty label the text goes on under the label before. Ends with a new line.
std::string labelled(std::string_view label, std::string_view text);

/// Fewest insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (no letter edited twice).
int edit_distance(std::string_view a, std::string_view b);
/// The nearest candidate that differs from `word` in one letter or at most a third of the letters, else the only one that
/// begins with `word` (3 letters at least). '-' equals '_', case does not matter. "": there is none, or `word` is digits alone.
std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& candidates);
/// "; did you mean 'NAME'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix = "");

}  // namespace tern
