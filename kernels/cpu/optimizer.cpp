#include "kernels/cpu/optimizer.h"

#include <cmath>

#include "base/error.h"
#include "kernels/cpu/optimizer_table.h"
#include "kernels/cpu/parallel.h"
#include "kernels/dispatch.h"

namespace tern {
namespace {

constexpr int64_t kUnit = 64;  // ranges of whole cache lines

template <class T>
T* at(std::span<T> s, int64_t i) {
  return s.empty() ? nullptr : s.data() + i;
}

void run_adamw(const AdamwStep& step, std::span<const float> gradient, float* cleared, std::span<float> weight,
               std::span<float> m, std::span<float> v, std::span<bf16> compute) {
  TERN_CHECK(gradient.size() == weight.size() && m.size() == weight.size() && v.size() == weight.size() &&
                 (compute.empty() || compute.size() == weight.size()) && step.step >= 1,
             "adamw_step: step {}, {} weights, {} gradients, state of {} and {}, {} to compute with", step.step,
             weight.size(), gradient.size(), m.size(), v.size(), compute.size());
  const double correction1 = 1 - std::pow(step.beta1, static_cast<double>(step.step));
  const double correction2 = 1 - std::pow(step.beta2, static_cast<double>(step.step));
  const AdamwScalars scalars = {.gradient_scale = static_cast<float>(step.gradient_scale),
                                .beta1 = static_cast<float>(step.beta1),
                                .one_minus_beta1 = static_cast<float>(1 - step.beta1),
                                .beta2 = static_cast<float>(step.beta2),
                                .one_minus_beta2 = static_cast<float>(1 - step.beta2),
                                .decay = static_cast<float>(step.learning_rate * step.weight_decay),
                                .step = static_cast<float>(step.learning_rate / correction1),
                                .root_scale = static_cast<float>(1 / std::sqrt(correction2)),
                                .epsilon = static_cast<float>(step.epsilon)};
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).adamw;
  parallel_ranges(static_cast<int64_t>(weight.size()), kParallelGrain, kUnit, [&](int64_t begin, int64_t end) {
    kernel(scalars, end - begin, gradient.data() + begin, cleared ? cleared + begin : nullptr, weight.data() + begin,
           m.data() + begin, v.data() + begin, at(compute, begin));
  });
}

}  // namespace

void adamw_step(const AdamwStep& step, std::span<const float> gradient, std::span<float> weight, std::span<float> m,
                std::span<float> v, std::span<bf16> compute) {
  run_adamw(step, gradient, nullptr, weight, m, v, compute);
}

void adamw_step_and_clear(const AdamwStep& step, std::span<float> gradient, std::span<float> weight, std::span<float> m,
                          std::span<float> v, std::span<bf16> compute) {
  run_adamw(step, gradient, gradient.data(), weight, m, v, compute);
}

void sgd_step(const SgdStep& step, std::span<const float> gradient, std::span<float> weight, std::span<float> velocity,
              std::span<bf16> compute) {
  TERN_CHECK(gradient.size() == weight.size() && (velocity.empty() || velocity.size() == weight.size()) &&
                 (compute.empty() || compute.size() == weight.size()),
             "sgd_step: {} weights, {} gradients, {} velocities, {} to compute with", weight.size(), gradient.size(),
             velocity.size(), compute.size());
  const SgdScalars scalars = {.gradient_scale = static_cast<float>(step.gradient_scale),
                              .weight_decay = static_cast<float>(step.weight_decay),
                              .momentum = static_cast<float>(step.momentum),
                              .learning_rate = static_cast<float>(step.learning_rate)};
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).sgd;
  parallel_ranges(static_cast<int64_t>(weight.size()), kParallelGrain, kUnit, [&](int64_t begin, int64_t end) {
    kernel(scalars, end - begin, gradient.data() + begin, weight.data() + begin, at(velocity, begin),
           at(compute, begin));
  });
}

}  // namespace tern
