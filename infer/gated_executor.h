#pragma once
// Runs sequences with gated adapters. Each sequence has gates of its own, which follow from its whole prompt and weigh the branches.

#include <optional>
#include <vector>

#include "infer/executor.h"
#include "model/gated_adapter.h"

namespace tern {

/// A model_executor that runs all sequences with this gated adapter. `weights` have the branches of gated.branches as adapters 0, 1, …
/// (load_adapter_beside). The gates of a sequence follow from its prompt alone and are computed anew in each forward. So a sequence has the
/// same bits whatever runs beside it, and however its prompt is cut. Keys of one prompt are of no use for another, so no prefixes may be kept
/// (EngineLimits::of_prompts). Spec, weights, rope and arena must outlive it.
BatchExecutor gated_executor(const ModelSpec&, const ModelWeights& weights, GatedAdapter, const RopeTable*, Arena&);

/// What a request's adapter number stands for.
struct SideAdapter {
  int first = 0;                           // an adapter of the weights; with gates, the first of the branches
  std::optional<GatedAdapter> gates = {};  // if set: gates of the branches first, first + 1, …
};
/// A model_executor that runs a sequence of adapter i with side[i], and a sequence without adapter with the bare model. A batch without gates
/// runs as in model_executor, with the same bits. Errors: TERN_CHECK: a sequence names an adapter that `side` lacks.
BatchExecutor side_executor(const ModelSpec&, const ModelWeights& weights, std::vector<SideAdapter> side,
                            const RopeTable*, Arena&);

}  // namespace tern
