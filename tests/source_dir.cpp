#include "base/source_dir_testing.h"

namespace tern {

std::string source_dir() { return TERN_SOURCE_DIR; }

}  // namespace tern
