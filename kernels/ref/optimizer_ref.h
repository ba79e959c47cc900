#pragma once
// Plain twins (reference implementations) of kernels/cpu/optimizer.h: the same steps with every number a double.

#include <span>

#include "kernels/cpu/optimizer.h"

namespace tern {

/// Formulas as in kernels/cpu/optimizer.h, but without a rounded copy of the weights: f64 models compute with the weights themselves.
void adamw_step_ref(const AdamwStep&, std::span<const double> gradient, std::span<double> weight, std::span<double> m,
                    std::span<double> v);
/// Without momentum `velocity` is empty.
void sgd_step_ref(const SgdStep&, std::span<const double> gradient, std::span<double> weight,
                  std::span<double> velocity);

void look_ahead_ref(double keep, double take, std::span<double> gradient, std::span<double> buffer);
/// The direction is left as it is; it does not become zero.
void direction_step_ref(double decay, double step, std::span<const double> direction, std::span<double> weight);
double decayed_squares_ref(double scale, std::span<const double> gradient, double decay,
                           std::span<const double> weight);
/// Here and below the gradient is left as it is; it does not become zero.
void lion_step_ref(const LionStep&, std::span<const double> gradient, std::span<double> weight, std::span<double> m);
LambSums lamb_moments_ref(const AdamwStep&, std::span<const double> gradient, std::span<const double> weight,
                          std::span<double> m, std::span<double> v);
void lamb_step_ref(const AdamwStep&, double ratio, std::span<double> weight, std::span<const double> m,
                   std::span<const double> v);
void schedule_free_step_ref(const ScheduleFreeStep&, std::span<const double> gradient, std::span<double> x,
                            std::span<double> d, std::span<double> v, std::span<double> y);
void schedule_free_place_ref(double beta1, std::span<const double> x, std::span<const double> d, std::span<double> y);

}  // namespace tern
