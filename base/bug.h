#pragma once
// A broken promise of our own code, apart from Error (base/error.h), which is bad input or a bad world. Neither type is
// the other, so `catch (const Error&)` takes no bug for bad input. TERN_CHECK throws it.

#include <fmt/core.h>

#include <stdexcept>
#include <utility>

namespace tern {

/// Only main turns it into words. Others catch it to clean up, or to carry it from one thread to another, and throw it
/// on.
class Bug : public std::logic_error {
 public:
  template <class... Args>
  explicit Bug(fmt::format_string<Args...> format, Args&&... args)
      : std::logic_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace tern
