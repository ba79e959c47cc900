#pragma once
// Ranks that share out each matrix (--tensor-parallel): which runs they can do, and what NORM counts.

#include "train/settings.h"
#include "train/stages.h"
#include "update/pass.h"

namespace tern {

/// Checks that s.tensor ranks can share the matrices, the rows of a micro-batch and the optimizer's state. Errors: usage,
/// naming the unit or option that stands against it.
void check_tensor_ranks(const ModelSpec&, const TrainSettings&);

/// The same of s.context_ranks and the rows of a micro-batch.
void check_context_ranks(const ModelSpec&, const TrainSettings&);

/// What NORM counts of this rank's parts of parameters. `part`: tensor_part of the model.
TensorNorm tensor_norm(const ModelSpec& part, const RankPlace&, const StageGroups&, const Shares&);

}  // namespace tern
