#include "kernels/cpu/optimizer_table.h"

#include "kernels/cpu/elementwise_impl.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

// Decay and update are taken from the old weight together, w -= lr·wd·w + step·m/(…), so that the new one is rounded
// once.
void adamw(const AdamwScalars& s, int64_t count, const float* gradient, float* cleared, float* weight, float* m,
           float* v, bf16* compute) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec g = load_some(gradient + i, n) * s.gradient_scale, w = load_some(weight + i, n);
    const Vec first = fma(splat(s.beta1), load_some(m + i, n), g * s.one_minus_beta1);
    const Vec second = fma(splat(s.beta2), load_some(v + i, n), g * g * s.one_minus_beta2);
    const Vec root = fma(sqrt(second), splat(s.root_scale), splat(s.epsilon));
    const Vec updated = w - fma(splat(s.decay), w, first * s.step / root);
    store_some(m + i, first, n);
    store_some(v + i, second, n);
    store_some(weight + i, updated, n);
    if (cleared) store_some(cleared + i, splat(0.0f), n);
    if (compute) store_some(compute + i, updated, n);
  });
}

void sgd(const SgdScalars& s, int64_t count, const float* gradient, float* weight, float* velocity, bf16* compute) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec w = load_some(weight + i, n);
    Vec u = fma(splat(s.weight_decay), w, load_some(gradient + i, n) * s.gradient_scale);
    if (velocity) {
      u = fma(splat(s.momentum), load_some(velocity + i, n), u);
      store_some(velocity + i, u, n);
    }
    const Vec updated = fma(splat(-s.learning_rate), u, w);
    store_some(weight + i, updated, n);
    if (compute) store_some(compute + i, updated, n);
  });
}

}  // namespace

const OptimizerTable optimizer_table = {adamw, sgd};

}  // namespace tern::TERN_ISA_NAMESPACE
