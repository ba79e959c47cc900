// SGD inside GaLore's projection: update/galore.h.
#include "update/galore.h"

namespace tern {

const UpdateFunctions galore_sgd_rule{
    .step = [](const UpdateShard& s) { galore_step(s, UpdateRule::sgd, /*adds_decay=*/true); },
    .thread_bytes = galore_thread_bytes};

}  // namespace tern
