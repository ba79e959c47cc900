#pragma once
// What a run with --outer has beside the state of each rank: the state of the outer step, its memory, its form in a checkpoint, and the
// model that the ranks have in common.

#include "train/fit.h"
#include "train/state_tensors.h"
#include "train/train_state.h"
#include "update/outer.h"

namespace tern {

/// The fragments of the model that are averaged at different steps, each with the shapes of its tensors.
std::vector<OuterFragment> outer_fragments(const ModelSpec&, const OuterConfig&);
/// A new outer state, whose common model is a copy of the optimizer's masters. For a resumed run load_state overwrites it.
OuterState outer_state_of(const ModelSpec&, const TrainSettings&, const OptimizerState&, Arena&);

/// The tensors of a checkpoint, which holds what all ranks have.
///   With a row for each rank: "replica.NAME" (masters), "SLOT.NAME", "outer-error.FRAGMENT".
///   Once: "model.NAME" (the model in common), "outer-momentum.NAME", "outer-pending.NAME", "outer-sum-error.FRAGMENT", and the factors
///   "outer-left.NAME" and "outer-right.NAME".
/// When ranks average in pairs, "model.NAME" is the first rank's model, and "common.NAME", "outer-momentum.NAME" and "outer-pending.NAME" have
/// a row for each rank.
std::vector<StateTensor> outer_tensors(const UpdateConfig&, DType dtype, const OptimizerState&, const OuterState&);

/// Writes the common model, rounded to the type of `whole`, into `whole`, together with the parameters that are not trained.
void put_common(const ModelSpec&, const OptimizerState&, const OuterState&, ModelWeights& whole);

/// Adds the bytes of the outer states, and of what ranks send for them, to the predicted memory. `one_rank`: bytes of one rank's checkpoint
/// without outer states.
void predict_outer(const ModelSpec&, const TrainSettings&, int64_t one_rank, PredictedMemory&);

}  // namespace tern
