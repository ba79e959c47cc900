#pragma once
// Runs sequences with gated adapters: each has branches of its own strength, fixed by its whole prompt.

#include "infer/executor.h"
#include "model/gated_adapter.h"

namespace tern {

/// As model_executor; `weights` have the branches of gated.branches as adapters 0, 1, … (load_adapter_beside). The gates of a sequence
/// follow from its prompt alone and are made anew at each forward, so a sequence has the bits of a run by itself, whatever runs beside it
/// and however its prompt is cut. It references spec, weights, rope and arena. Keys of one prompt serve no other, so nothing may be kept
/// of prefixes.
BatchExecutor gated_executor(const ModelSpec&, const ModelWeights& weights, GatedAdapter, const RopeTable*, Arena&);

}  // namespace tern
