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

}  // namespace tern
