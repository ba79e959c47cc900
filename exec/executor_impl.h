#pragma once

#include "exec/executor.h"

namespace tern {

/// Whether the input is what the Program needs. Errors: as execute says.
void require_input(const Program&, const ExecuteInput&);

}  // namespace tern
