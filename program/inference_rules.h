#pragma once
// Rules of a Program of inference: parts of FORWARDs, extents and keys that come from the disk, and the slots in which they lie.
// program/validate.h lists these rules.

#include <string>
#include <vector>

#include "program/program.h"

namespace tern {

/// The rules that the Program breaks, one sentence each. Its fields must be in range.
std::vector<std::string> faults_of_inference(const Program&);

}  // namespace tern
