#pragma once
// Optimizer steps on one tensor, in one pass over memory. State in f32. Twin: kernels/ref/optimizer_ref.h (doubles).

#include <cstdint>
#include <span>

#include "base/dtype.h"

namespace tern {

struct AdamwStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  int64_t step;           // 1-based, for the bias corrections
  double gradient_scale;  // gradients are multiplied by this first (clipping)
};
/// PyTorch's AdamW: w -= lr·wd·w;  m = β1 m + (1-β1) g;  v = β2 v + (1-β2) g²;
/// w -= lr/(1-β1^t) · m / (sqrt(v)/sqrt(1-β2^t) + ε).  Source: Loshchilov & Hutter 2019, arXiv:1711.05101.
/// `compute` receives the new weights rounded to bf16, if not empty.
void adamw_step(const AdamwStep&, std::span<const float> gradient, std::span<float> weight, std::span<float> m,
                std::span<float> v, std::span<bf16> compute);
/// The same, and the gradient becomes zero in the same pass.
void adamw_step_and_clear(const AdamwStep&, std::span<float> gradient, std::span<float> weight, std::span<float> m,
                          std::span<float> v, std::span<bf16> compute);

struct SgdStep {
  double learning_rate, momentum, weight_decay;
  double gradient_scale;
};
/// PyTorch's SGD: g += wd·w;  u = μ u + g;  w -= lr·u. Without momentum `velocity` is empty.
void sgd_step(const SgdStep&, std::span<const float> gradient, std::span<float> weight, std::span<float> velocity,
              std::span<bf16> compute);

/// Nesterov momentum; the look-ahead gradient replaces g: g = take·g;  b = keep·b + g;  g = g + keep·b. b is `buffer`.
void look_ahead(double keep, double take, std::span<float> gradient, std::span<float> buffer);
/// w -= decay·w + step·u, with u = direction; u becomes zero.
void direction_step(double decay, double step, std::span<float> direction, std::span<float> weight,
                    std::span<bf16> compute);

/// Σ (scale·g + decay·w)², in doubles, in eight chains: the bits do not depend on the instruction set. One thread.
double decayed_squares(double scale, std::span<const float> gradient, double decay, std::span<const float> weight);

struct LionStep {
  double learning_rate, beta1, beta2, weight_decay;
  double gradient_scale;
};
/// u = β1 m + (1-β1) g;  w -= lr·(sign(u) + wd·w);  m = β2 m + (1-β2) g; sign(0) = 0. The gradient becomes zero.
/// Source: Chen et al. 2023, arXiv:2302.06675, algorithm 2.
void lion_step(const LionStep&, std::span<float> gradient, std::span<float> weight, std::span<float> m,
               std::span<bf16> compute);

struct LambSums {
  double weight = 0, direction = 0;  // Σ w², Σ r²
};
/// Updates the moments as AdamW does; r = m/(1-β1^t) / (sqrt(v)/sqrt(1-β2^t) + ε) + wd·w. Returns Σ w² and Σ r², in doubles. The gradient
/// becomes zero. One thread. Source: You et al. 2020, arXiv:1904.00962, algorithm 2.
LambSums lamb_moments(const AdamwStep&, std::span<float> gradient, std::span<const float> weight, std::span<float> m,
                      std::span<float> v);
/// w -= lr·ratio·r, with r computed as in lamb_moments.
void lamb_step(const AdamwStep&, double ratio, std::span<float> weight, std::span<const float> m,
               std::span<const float> v, std::span<bf16> compute);

struct ScheduleFreeStep {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  int64_t step;
  double gradient_scale;
  double average_weight;  // c below: the weight of this step in the average x
};
/// Schedule-free AdamW. x is the average, which is saved; y = x + (1-β1) d is where gradients are taken; d = z - x. A step:
/// v = β2 v + (1-β2) g²;  u = g / (sqrt(v/(1-β2^t)) + ε) + wd·y;  e = d - lr·u;  x += c·e;  d = (1-c)·e;  y = x + (1-β1) d.
/// These are the steps z -= lr·u, x = (1-c) x + c z of Defazio et al. 2024, arXiv:2405.15682, with d stored instead of z. y is the
/// weights, f32 or bf16. The gradient becomes zero.
void schedule_free_step(const ScheduleFreeStep&, std::span<float> gradient, std::span<float> x, std::span<float> d,
                        std::span<float> v, std::span<float> y);
void schedule_free_step(const ScheduleFreeStep&, std::span<float> gradient, std::span<float> x, std::span<float> d,
                        std::span<float> v, std::span<bf16> y);
/// y = x + (1-β1) d, with the bits of schedule_free_step.
void schedule_free_place(double beta1, std::span<const float> x, std::span<const float> d, std::span<float> y);
void schedule_free_place(double beta1, std::span<const float> x, std::span<const float> d, std::span<bf16> y);

}  // namespace tern
