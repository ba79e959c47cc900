#pragma once
// Before an instruction set is chosen, its matrix products are compared with the plain twin, in every OpenMP thread: on
// some virtual machines an instruction is announced and works in the first thread only.

#include <string>

#include "kernels/dispatch.h"

namespace tern {

/// Empty if the set's kernels agree with the twins, else what differed. The set must be supported by the machine.
std::string self_test(Isa);

}  // namespace tern
