#pragma once
// The keys of a GGUF file that belong to its architecture, read with errors that name them. For formats/gguf/ alone.

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "formats/gguf/gguf.h"

namespace tern {

/// Reads keys by their names without the architecture, which is put before them. Errors: bad_file "PATH: key 'K': …".
struct GgufKeys {
  const Gguf& file;
  std::string architecture;

  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture, name); }
  template <class... Args>
  [[noreturn]] void fail(const std::string& at, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(ErrorKind::bad_file, "{}: key '{}': {}", file.path(), at,
                fmt::format(format, std::forward<Args>(args)...));
  }
  /// A whole number. A file may give one for each layer; then all must be equal. Absent: no such key.
  std::optional<int64_t> integer(std::string_view name) const;
  /// The same, which must be there and lie in 1 to 2^31 - 1.
  int64_t needed(std::string_view name) const;
  std::optional<double> number(std::string_view name) const;
  double needed_number(std::string_view name) const;
  const GgufTensor& tensor(std::string_view name) const;
};

}  // namespace tern
