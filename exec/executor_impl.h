#pragma once
// What the parts of execute share, for exec/ alone.

#include "exec/executor.h"

namespace tern {

/// Refuses an input that lacks what the Program needs. Errors: as execute says.
void require_input(const Program&, const ExecuteInput&);

}  // namespace tern
