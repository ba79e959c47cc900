#pragma once
// Tests only: the trained model that lies in examples/.

#include <string>

#include "base/source_dir_testing.h"

namespace tern {

inline const std::string kNovels = source_dir() + "/examples/novels-6m";

}  // namespace tern
