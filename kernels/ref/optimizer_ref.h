#pragma once
// Plain twins of kernels/cpu/optimizer.h: the same steps with every number a double.

#include <span>

#include "kernels/cpu/optimizer.h"

namespace tern {

/// Formulas as in kernels/cpu/optimizer.h; there is no rounded copy of the weights, as doubles compute with themselves.
void adamw_step_ref(const AdamwStep&, std::span<const double> gradient, std::span<double> weight, std::span<double> m,
                    std::span<double> v);
/// Without momentum `velocity` is empty.
void sgd_step_ref(const SgdStep&, std::span<const double> gradient, std::span<double> weight,
                  std::span<double> velocity);

}  // namespace tern
