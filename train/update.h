#pragma once
// The optimizer's state over a model's parameters, and one UPDATE: norm, clipping, refusal of what is not finite, AdamW
// or SGD.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/weights.h"
#include "spec/update_rule.h"
#include "tensor/arena.h"

namespace tern {

/// Errors: usage, naming what is known.
UpdateRule update_rule_from_name(std::string_view);

struct OptimizerConfig {
  UpdateRule kind = UpdateRule::adamw;
  double beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8,
         weight_decay = 0.1;  // weight decay of matrices only (ParameterInfo::decay)
  double momentum = 0.0;      // sgd
  double clip = 1.0;          // of the global norm; 0: none
};

/// One entry per parameters(spec), in their order. master: f32 (f64 for f64 models), the very tensors of the weights
/// unless these are bf16. first: m, or sgd's velocity; second: v; empty where the optimizer has none.
struct OptimizerState {
  std::vector<ParameterInfo> infos;
  std::vector<Tensor> master, first, second;
  std::vector<std::string> fixed_names;  // of tensors that no update changes: the very ones of the weights
  std::vector<Tensor> fixed;
};

/// Zero moments; masters shared with f32 and f64 weights, widened from bf16 ones. Whoever
/// has f32 values writes them into the masters and calls round_masters. Bytes: MemoryClass::optimizer.
OptimizerState make_optimizer_state(const ModelSpec&, ModelWeights&, const OptimizerConfig&, Arena&);
/// Bytes the state of `parameters` elements takes, beside weights and gradients.
int64_t optimizer_bytes(int64_t parameters, DType, const OptimizerConfig&);
/// Rounds the masters into bf16 compute weights; nothing to do for other dtypes.
void round_masters(const ModelSpec&, const OptimizerState&, ModelWeights&);

struct UpdateResult {
  double gradient_norm = 0;  // before clipping
  double coefficient = 1;    // what the gradients were multiplied by
};

/// Updates weights (and bf16 copies), then zeroes the gradients.
/// Norm    sqrt of Σ over parameters, in the order of parameters(spec), of sum_of_squares (doubles, fixed blocks).
/// Clip    PyTorch's clip_grad_norm_: coefficient min(1, clip / (norm + 1e-6)).
/// Errors  bad_file (settings or data, not us): a gradient that is not finite, naming step and tensor; weights, moments
/// and
///         gradients are as before the call.
UpdateResult apply_update(const ModelSpec&, OptimizerState&, const OptimizerConfig&, ModelWeights& weights,
                          ModelWeights& gradients, double learning_rate, int64_t step);

void zero_gradients(const ModelSpec&, ModelWeights& gradients);

}  // namespace tern
