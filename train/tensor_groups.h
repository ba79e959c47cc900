#pragma once
// Ranks that share out each matrix (--tensor-parallel): which runs they can do, and the groups of a rank.

#include "train/settings.h"
#include "train/stages.h"
#include "update/step.h"

namespace tern {

/// Whether s.tensor ranks can share out the matrices, the rows of a micro-batch and the optimizer's state. Errors: usage, naming the
/// unit or option that stands against it.
void check_tensor_ranks(const ModelSpec&, const TrainSettings&);

/// The groups of a rank: its tensor group is a row of neighbours in the world.
StageGroups tensor_groups(const ModelSpec&, const RankPlace&, Comm& world);

/// What NORM counts of this rank's parts of parameters. `part`: tensor_part of the model.
TensorNorm tensor_norm(const ModelSpec& part, const RankPlace&, const StageGroups&);

}  // namespace tern
