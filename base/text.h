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
/// The columns that valid UTF-8 takes on a terminal, counted as one for each code point.
size_t display_width(std::string_view);
/// Breaks at blanks into lines of at most `width` columns; a longer word has a line of its own.
std::vector<std::string> wrap_text(std::string_view, size_t width);
/// "tied       2 within 2 %": the label in a column of width 10, and beside it the text, wrapped for a terminal of 120
/// columns. With an empty label, the text continues the one above it. Ends with a newline.
std::string labelled(std::string_view label, std::string_view text);

/// Fewest insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b` (no letter edited twice).
int edit_distance(std::string_view a, std::string_view b);
/// The candidate with the fewest edits from `word`, if that is one edit or at most a third of the letters; else the only candidate that
/// begins with `word`, if that has 3 letters or more. '-' equals '_', and case does not matter. "": there is none, or `word` has only digits.
std::string_view nearest_name(std::string_view word, const std::vector<std::string_view>& candidates);
/// "; did you mean 'NAME'?" or "".
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates,
                         std::string_view prefix = "");

}  // namespace tern
