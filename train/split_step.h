#pragma once
// A step whose gradients are looked at, or added to, between the backward passes and the norm.

#include <functional>
#include <span>

#include "exec/executor.h"
#include "model/visit_weights.h"
#include "model/weights.h"

namespace tern {

/// What is trained, after a step's backward passes: entry i of each span belongs to parameter i.
struct StepGradients {
  int64_t step = 0;  // from 1
  std::span<const ParameterInfo> infos;
  std::span<const Tensor> masters, gradients;  // f32, or f64 of an f64 model
};

/// execute(program, input) with `between` called before the NORM.
/// Errors  TERN_CHECK: a Program of several ranks.
ExecuteResult execute_around(const Program&, const ExecuteInput&, const std::function<void()>& between);

/// The same, with `before` and `after` called around the passes of each micro-batch too. `between` still comes before the NORM.
/// Errors  TERN_CHECK: a Program of several ranks, or whose micro-batches do not come one after the other.
struct AroundMicroBatches {
  std::function<void(size_t micro)> before, after;
  std::function<void()> between;
};
ExecuteResult execute_around(const Program&, const ExecuteInput&, const AroundMicroBatches&);

}  // namespace tern
