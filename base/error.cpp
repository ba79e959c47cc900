#include "base/error.h"

#include <cstring>

namespace tern {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const char* slash = std::strrchr(file, '/');
  throw Error(ErrorKind::bug, "{}:{}: broken promise: {} ({}); this is a bug in tern, please report it",
              slash ? slash + 1 : file, line, message, condition);
}

}  // namespace tern
