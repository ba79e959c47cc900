#pragma once
// Bug: a broken promise of our own code. Error (base/error.h), for bad input or a bad world, is another type, so that
// `catch (const Error&)` takes no bug for bad input. TERN_CHECK throws a Bug.

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace tern {

/// Main tells people of a Bug and exits; the server answers with 500, logs it or closes the connection, and goes on.
/// Other code may catch one to clean up, or to carry it from one thread to another, and then throws it again.
class Bug : public std::logic_error {
 public:
  template <class... Args>
  explicit Bug(fmt::format_string<Args...> format, Args&&... args)
      : std::logic_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace tern
