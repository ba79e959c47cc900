#pragma once
// Makes texts safe for a terminal. Texts from outside (a model's output, names in files) must not control it.

#include <string>
#include <string_view>

namespace tern {

/// The text with all bytes that could control a terminal made visible, as make_printable does: control characters other than
/// tab and newline, DEL, C1 controls, invalid UTF-8.
std::string terminal_text(std::string_view);
/// The text to write to the file descriptor: its terminal_text if `fd` is a terminal, else its bytes unchanged.
std::string text_for(int fd, std::string_view);

}  // namespace tern
