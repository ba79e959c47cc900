// AdamW with moments in 8 bits inside GaLore's projection: update/galore.h.
#include "update/galore.h"

namespace tern {

const UpdateFunctions galore_adamw8bit_rule{
    .step = [](const UpdateShard& s) { galore_step(s, UpdateRule::adamw8bit, /*adds_decay=*/false); },
    .thread_bytes = galore_thread_bytes};

}  // namespace tern
