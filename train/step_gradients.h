#pragma once
// The gradients of a step, for functions that look at them or change them before the NORM.

#include <cstdint>
#include <span>

#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// What is trained, after a step's backward passes. Entry i of each span belongs to parameter i.
struct StepGradients {
  int64_t step = 0;  // from 1
  std::span<const ParameterInfo> infos;
  std::span<const Tensor> masters, gradients;  // f32, or f64 of an f64 model
};

}  // namespace tern
