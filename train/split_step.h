#pragma once
// Runs a step and calls functions on the way: between the backward passes and NORM, and around each micro-batch.

#include <functional>
#include <span>

#include "exec/executor.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// What is trained, as it is after a step's backward passes. Entry i of each span belongs to parameter i.
struct StepGradients {
  int64_t step = 0;  // from 1
  std::span<const ParameterInfo> infos;
  std::span<const Tensor> masters, gradients;  // f32, or f64 of an f64 model
};

/// execute(program, input) that calls `between` before NORM. `between` may change the gradients.
/// Errors  those of execute; TERN_CHECK: a Program of several pipeline devices.
ExecuteResult execute_around(const Program&, const ExecuteInput&, const std::function<void()>& between);

/// What to call in a step.
struct AroundMicroBatches {
  std::function<void(size_t micro)> before, after;  // before the first and after the last pass of each micro-batch
  std::function<void()> between;                    // before NORM
};
/// execute(program, input) that calls these functions.
/// Errors  those of execute; TERN_CHECK: several pipeline devices; micro-batches that are not one after the other.
ExecuteResult execute_around(const Program&, const ExecuteInput&, const AroundMicroBatches&);

}  // namespace tern
