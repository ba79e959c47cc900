#pragma once
// Packs weights into the layout of the exact kernels.

#include "model/weights.h"

namespace tern {

/// Packs every linear that is neither packed nor coded, for the exact kernels, layer by layer, and frees the plain copy. The embedding
/// table stays plain, so a tied projection is held twice. f64 has no packed form and is left as it is; so are weights that the
/// kernels read unpacked (reads_plain_weights). The layout belongs to the active instruction set (kernels/dispatch.h).
void pack_weights(const ModelSpec&, ModelWeights&, Arena&);

}  // namespace tern
