#include "base/error.h"

#include <cstring>

#include "base/bug.h"

namespace tern {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw Bug("{}:{}: broken promise: {} ({})", slash ? slash + 1 : file, line, message, condition);
}

}  // namespace tern
