#pragma once
// Ranks that share out each matrix (--tensor-parallel), the rows of each micro-batch (--context-parallel) or the experts (--expert-parallel):
// which runs they can do, and which elements each rank counts in NORM.

#include "train/rank_groups.h"
#include "train/rank_place.h"
#include "train/settings.h"
#include "update/pass.h"

namespace tern {

/// Checks that the ranks of a tensor group (TrainSettings::tensor) can share the matrices, the rows of a micro-batch and the optimizer's
/// state. Errors: usage, naming the unit or option that forbids it.
void check_tensor_ranks(const ModelSpec&, const TrainSettings&);

/// Checks that the ranks of a context group (TrainSettings::context_ranks) can share the rows of a micro-batch. Errors: as above.
void check_context_ranks(const ModelSpec&, const TrainSettings&);

/// Checks that the ranks of an expert group (TrainSettings::expert_ranks) can share the experts. Errors: as above.
void check_expert_ranks(const ModelSpec&, const TrainSettings&);

/// Which elements NORM counts on this rank, so that over all ranks each element counts once. `part`: tensor_part of the model.
TensorNorm tensor_norm(const ModelSpec& part, const RankPlace&, const RankGroups&, const Shares&);

}  // namespace tern
