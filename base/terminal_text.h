#pragma once
// What may go to a terminal. Texts of strangers (what a model wrote, names in files) must not steer it.

#include <string>
#include <string_view>

namespace tern {

/// The text with all bytes that could steer a terminal (control characters but tab and newline, DEL, the C1 controls, invalid
/// UTF-8) made visible, as make_printable does.
std::string terminal_text(std::string_view);
/// The text as the file descriptor may get it: terminal_text where it is a terminal, else the bytes as they are.
std::string text_for(int fd, std::string_view);

}  // namespace tern
