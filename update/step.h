#pragma once
// The end of a step, as its instructions: NORM over all gradients, then UPDATE of each unit. (REDUCE before them is
// model/weights.h's join_tied_gradients.)

#include <cstdint>
#include <vector>

#include "update/rule.h"
#include "update/state.h"

namespace tern {

/// What NORM and UPDATE work on: made once for a run; `learning_rate` and `step` are set before each step.
struct UpdatePass {
  OptimizerState& state;
  const UpdateConfig& config;
  std::vector<Tensor> weights, gradients;  // in the order of state.infos; they share the model's storage
  double learning_rate = 0;
  int64_t step = 0;  // the step that is being done, from 1
};
/// The state and the config must outlive it. The gradients are those of allocate_gradients.
UpdatePass make_update_pass(const ModelSpec&, OptimizerState&, const UpdateConfig&, ModelWeights& weights,
                            ModelWeights& gradients);

/// NORM: what every UPDATE of the step needs of all gradients together. Changes nothing.
/// Order   sqrt of Σ over parameters, in the order of trained_parameters(spec), of sum_of_squares (doubles, fixed blocks).
/// Clip    PyTorch's clip_grad_norm_: coefficient min(1, clip / (norm + 1e-6)).
/// Errors  diverged: a gradient that is not finite, naming the step and the tensor.
UpdateNorm gradient_norm(const UpdatePass&);

/// UPDATE(unit): the rule's step on every parameter of the unit, in one pass over memory that also rounds the masters
/// into bf16 weights; then the gradients of the unit are zero. Units may come in any order: same bits.
void update_unit(const UpdatePass&, const UpdateNorm&, int unit);

}  // namespace tern
