#pragma once
// Bug: thrown when tern's own code breaks a promise; TERN_CHECK throws it. Error (base/error.h) is for bad input and
// failures of the system. Bug is not derived from Error, so `catch (const Error&)` does not catch it.

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace tern {

/// main prints a Bug and exits. The server answers 500, or logs the Bug, or closes the connection, and goes on serving.
/// Other code may catch a Bug to clean up, or to carry it to another thread, and then rethrows it.
class Bug : public std::logic_error {
 public:
  template <class... Args>
  explicit Bug(fmt::format_string<Args...> format, Args&&... args)
      : std::logic_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace tern
