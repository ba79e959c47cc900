#pragma once
// The memory of a run whose ranks have unlike layers, experts or parts of matrices (RankPlace::in_mesh). It is the sum of what each rank holds.

#include "program/program.h"
#include "train/fit.h"

namespace tern {

/// Fills in weights, gradients, optimizer, beginning and messages of `memory`, in bytes. `all`: the Program of all stages
/// (program/lower.h), with as many micro-batches as it needs to reach its peak.
/// Errors  those of shares_of.
void predict_mesh(const ModelSpec&, const TrainSettings&, const Program& all, PredictedMemory& memory);

/// Whether rank 0 has the whole model only while it evaluates or writes it. That is so with tensor groups, with expert groups, and with
/// ZeRO 3 over several ranks, stages or not. Otherwise rank 0 has the whole model all the time (--outer: a second one while it evaluates).
bool is_whole_for_a_while(const TrainSettings&);

/// Whether ranks keep unlike parts of what a checkpoint holds. Then all ranks write it together, without a copy
/// (train/shared_checkpoint.h).
bool keeps_apart(const TrainSettings&);

}  // namespace tern
