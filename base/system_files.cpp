#include <charconv>
#include <fstream>
#include <sstream>

#include "base/system_files_impl.h"
#include "base/text.h"

namespace tern {

std::string read_system_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return file ? text.str() : "";
}

int64_t field_bytes(const std::string& text, std::string_view key) {
  for (const std::string_view line : split(text, '\n')) {
    if (!line.starts_with(key) || !line.substr(key.size()).starts_with(':')) continue;
    const std::string_view number = trim(line.substr(key.size() + 1));
    int64_t value = 0;
    const auto result = std::from_chars(number.data(), number.data() + number.size(), value);
    if (result.ec != std::errc()) return 0;
    return line.ends_with("kB") ? value * 1024 : value;
  }
  return 0;
}

}  // namespace tern
