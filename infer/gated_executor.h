#pragma once
// Runs sequences with gated adapters: each has branches of its own strength, fixed by its whole prompt.

#include <optional>
#include <vector>

#include "infer/executor.h"
#include "model/gated_adapter.h"

namespace tern {

/// As model_executor, for all sequences; `weights` have the branches of gated.branches as adapters 0, 1, … (load_adapter_beside). The gates of a sequence
/// follow from its prompt alone and are made anew at each forward, so a sequence has the bits of a run by itself, whatever runs beside it
/// and however its prompt is cut. It references spec, weights, rope and arena. Keys of one prompt serve no other, so nothing may be kept
/// of prefixes (EngineLimits::of_prompts).
BatchExecutor gated_executor(const ModelSpec&, const ModelWeights& weights, GatedAdapter, const RopeTable*, Arena&);

/// What sequences of one adapter number are computed with: adapter `first` of the weights, or, with gates, the branches `first`, first + 1, ….
struct SideAdapter {
  int first = 0;
  std::optional<GatedAdapter> gates = {};
};
/// The same; a sequence of adapter i runs with side[i], one without adapter with the bare model. A batch without gates
/// runs as in model_executor, to the same bits. Errors: TERN_CHECK for a sequence with an adapter beyond those.
BatchExecutor side_executor(const ModelSpec&, const ModelWeights& weights, std::vector<SideAdapter> side,
                            const RopeTable*, Arena&);

}  // namespace tern
