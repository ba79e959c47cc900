#pragma once
// Shared libraries that few runs need. A library is loaded when the first of its functions is asked for, so other runs start without it.

#include <initializer_list>
#include <string>
#include <vector>

namespace tern {

class LateLibrary {
 public:
  /// `names`: file names or paths, tried in this order; the system's loader searches for each as for a linked library.
  /// `purpose`, for messages: what needs the library, and what to do if it is missing. Loads nothing yet.
  LateLibrary(std::initializer_list<const char*> names, std::string purpose)
      : names_(names.begin(), names.end()), purpose_(std::move(purpose)) {}
  /// The address of a function; it stays valid. Loads the library. Thread-safe. Errors: bad_file: no such library, or no such function in it.
  void* function(const char* name);
  /// Loads the library, if it is not loaded yet. Thread-safe. Errors: bad_file: no such library.
  void load();

 private:
  std::vector<const char*> names_;
  std::string purpose_;
  void* handle_ = nullptr;
};

}  // namespace tern
