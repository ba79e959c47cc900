#include "base/shell.h"

#include "base/text.h"

namespace tern {

std::string shell_quoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=+,:@") ==
                                          std::string::npos;
  return plain ? text : "'" + replace_all(text, "'", "'\\''") + "'";
}

}  // namespace tern
