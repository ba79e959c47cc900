#pragma once
// What a run of rarely talking ranks has beside its ranks' own states: their memory, what a checkpoint holds of all of them, the model they have in
// common.

#include "train/fit.h"
#include "train/state_tensors.h"
#include "train/train_state.h"
#include "update/outer.h"

namespace tern {

/// The shapes of each fragment's tensors.
std::vector<OuterFragment> outer_fragments(const ModelSpec&, const OuterConfig&);
/// A new state, from masters that are initialised; or memory for a checkpoint's state, which load_state then fills.
OuterState outer_state_of(const ModelSpec&, const TrainSettings&, const OptimizerState&, Arena&);

/// A checkpoint of all ranks: "model.NAME" is the model in common, the rest of each rank is a row: "replica.NAME" (masters), "SLOT.NAME",
/// "outer-error.FRAGMENT"; of all, "outer-momentum.NAME", "outer-pending.NAME", "outer-sum-error.FRAGMENT", "outer-left.NAME",
/// "outer-right.NAME" (factors). In pairs the model is the first rank's, and "common.NAME" and the momentum have a row for each rank.
std::vector<StateTensor> outer_tensors(const UpdateConfig&, DType dtype, const OptimizerState&, const OuterState&);

/// Writes the model in common, rounded, into `whole`, and the parameters that are not trained.
void put_common(const ModelSpec&, const OptimizerState&, const OuterState&, ModelWeights& whole);

/// Adds the bytes of what is kept and sent beside the ranks' own states to what is predicted. `one_rank`: bytes of a checkpoint of one rank alone.
void predict_outer(const ModelSpec&, const TrainSettings&, int64_t one_rank, PredictedMemory&);

}  // namespace tern
