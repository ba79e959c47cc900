#pragma once
// What the step of an update rule sees. Each rule is one file, update/NAME.cpp, with one function, NAME_update.

#include <cstdint>
#include <vector>

#include "spec/update_rule.h"
#include "tensor/tensor.h"

namespace tern {

/// Of NORM, over all gradients of the model.
struct UpdateNorm {
  double gradient_norm = 0;  // before clipping
  double coefficient = 1;    // of clipping: a rule multiplies the gradients by it
};

/// One parameter, or an interval of its flat elements (UpdateGrain). Tensors of one interval have the same elements.
struct UpdateShard {
  const UpdateConfig& config;
  ParameterForm form;  // of the whole parameter
  bool decays;         // matrices and tables do, biases and norms do not
  double learning_rate;
  int64_t step;  // from 1
  UpdateNorm norm;
  Tensor gradient, master;    // f32, or f64 of an f64 model
  Tensor rounded;             // bf16 weights that get the new masters, rounded; empty where the masters are the weights
  std::vector<Tensor> slots;  // as the rule's row; empty where nothing is kept
};

/// A rule's step: changes masters, slots and rounded weights, and leaves the gradient zero.
using UpdateStep = void (*)(const UpdateShard&);

#define TERN_UPDATE_RULE(name, ...) void name##_update(const UpdateShard&);
#include "spec/update_rules.def"
#undef TERN_UPDATE_RULE

UpdateStep step_of(UpdateRule);

/// The elements, or nothing of an empty tensor.
template <class T>
std::span<T> span_or_empty(const Tensor& t) {
  return t.empty() ? std::span<T>() : t.span<T>();
}

}  // namespace tern
