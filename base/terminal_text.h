#pragma once
// What may go to a terminal. Texts of strangers (what a model wrote, names in files) must not steer it.

#include <string>
#include <string_view>

namespace tern {

/// Bytes that could steer a terminal (all below blank but tab and line end, DEL, the C1 controls, what is no UTF-8) made
/// visible as make_printable does; the rest as it is.
std::string terminal_text(std::string_view);
/// The text as the file descriptor may get it: terminal_text where it is a terminal, else the bytes as they are.
std::string text_for(int fd, std::string_view);

}  // namespace tern
