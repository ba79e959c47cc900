#include "base/late_library.h"

#include <dlfcn.h>

#include <mutex>

#include "base/error.h"

namespace tern {
namespace {

std::mutex loading;

}  // namespace

void LateLibrary::load() {
  const std::scoped_lock lock(loading);
  std::string reason;
  for (size_t i = 0; i < names_.size() && !handle_; ++i) {
    handle_ = ::dlopen(names_[i], RTLD_NOW | RTLD_LOCAL);
    if (!handle_ && reason.empty()) reason = ::dlerror();
  }
  if (!handle_) throw Error(ErrorKind::bad_file, "{}; {}", reason, purpose_);
}

void* LateLibrary::function(const char* name) {
  load();
  void* const found = ::dlsym(handle_, name);
  if (!found) throw Error(ErrorKind::bad_file, "{}: has no function {}; {}", names_.front(), name, purpose_);
  return found;
}

}  // namespace tern
