#include "base/terminal_text.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/utf8.h"

namespace tern {

std::string terminal_text(std::string_view s) {
  std::string out;
  const std::string valid = make_valid_utf8(s);
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    const bool c1 = c == 0xC2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xA0;
    if (c1)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(valid[++i])));
    else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      out += valid[i];
  }
  return out;
}

std::string text_for(int fd, std::string_view text) {
  return ::isatty(fd) == 1 ? terminal_text(text) : std::string(text);
}

}  // namespace tern
