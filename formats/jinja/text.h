#pragma once
// Python's text functions over marked text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "formats/jinja/value.h"

namespace tern::jinja {

size_t leading_space(std::string_view text);  // bytes of white space (str.isspace) at the front
/// The text without white space at its end.
std::string_view trim_right(std::string_view text);
/// Whether str.isspace holds for the character.
bool is_space(uint32_t code);

/// str.strip, lstrip and rstrip. chars: what is stripped; nullptr: white space.
MarkedText strip(const MarkedText& text, const std::string* chars, bool left, bool right);
/// str.upper, lower, capitalize, title (words), the filter title, swapcase, and the filter escape.
MarkedText upper(const MarkedText& text);
MarkedText lower(const MarkedText& text);
MarkedText capitalize(const MarkedText& text);
MarkedText title_words(const MarkedText& text);  // str.title
MarkedText title_jinja(const MarkedText& text);  // the filter of that name
MarkedText swap_case(const MarkedText& text);
MarkedText escape_html(const MarkedText& text);
/// str.replace of the first `count` places; below 0: of all.
MarkedText replace(Meter* meter, const MarkedText& text, std::string_view from, const MarkedText& to, int64_t count);
/// str.split and rsplit at white space, and at a separator; `count` < 0: without a limit.
std::vector<MarkedText> split_space(Meter* meter, const MarkedText& text, int64_t count, bool from_right);
std::vector<MarkedText> split_at(Meter* meter, const MarkedText& text, std::string_view separator, int64_t count,
                                 bool from_right);
std::vector<MarkedText> split_lines(Meter* meter, const MarkedText& text, bool keep_ends);
/// The byte at which code point number `chars` begins; and the number of code points before byte `bytes`.
size_t byte_offset(const TextObject& text, size_t chars);
size_t char_offset(const TextObject& text, size_t bytes);
/// The first place of `part` at or behind `from`; npos: none. Time is linear in the text, whatever the template: no text may
/// make it quadratic.
size_t find_text(std::string_view text, std::string_view part, size_t from = 0);
size_t find_text_last(std::string_view text, std::string_view part);
bool text_is(const std::string& name, std::string_view text);  // isdigit, isalpha, …

}  // namespace tern::jinja
