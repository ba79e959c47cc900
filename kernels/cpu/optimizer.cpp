#include "kernels/cpu/optimizer.h"

#include <cmath>
#include <initializer_list>

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

// `compute` may be empty.
void check_sizes(const char* who, size_t weights, std::initializer_list<size_t> others, size_t compute) {
  bool equal = compute == 0 || compute == weights;
  for (const size_t size : others) equal = equal && size == weights;
  TERN_CHECK(equal, "{}: {} weights, and spans of other sizes", who, weights);
}

// body(first element, count) on the threads.
template <class Body>
void over_elements(std::span<const float> weight, Body body) {
  parallel_ranges(static_cast<int64_t>(weight.size()), kParallelGrain, kUnit,
                  [&](int64_t begin, int64_t end) { body(begin, end - begin); });
}

double correction(double beta, int64_t step) { return 1 - std::pow(beta, static_cast<double>(step)); }

LambScalars lamb_scalars(const AdamwStep& step, double ratio) {
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .beta1 = static_cast<float>(step.beta1),
          .one_minus_beta1 = static_cast<float>(1 - step.beta1),
          .beta2 = static_cast<float>(step.beta2),
          .one_minus_beta2 = static_cast<float>(1 - step.beta2),
          .inverse_correction = static_cast<float>(1 / correction(step.beta1, step.step)),
          .root_scale = static_cast<float>(1 / std::sqrt(correction(step.beta2, step.step))),
          .epsilon = static_cast<float>(step.epsilon),
          .weight_decay = static_cast<float>(step.weight_decay),
          .step = static_cast<float>(step.learning_rate * ratio)};
}

void run_schedule_free(const ScheduleFreeStep& step, std::span<float> gradient, std::span<float> x, std::span<float> d,
                       std::span<float> v, std::span<float> y, std::span<bf16> narrow) {
  check_sizes("schedule_free_step", x.size(), {gradient.size(), d.size(), v.size(), y.size() + narrow.size()}, 0);
  const ScheduleFreeScalars scalars = {
      .gradient_scale = static_cast<float>(step.gradient_scale),
      .beta2 = static_cast<float>(step.beta2),
      .one_minus_beta2 = static_cast<float>(1 - step.beta2),
      .root_scale = static_cast<float>(1 / std::sqrt(correction(step.beta2, step.step))),
      .epsilon = static_cast<float>(step.epsilon),
      .weight_decay = static_cast<float>(step.weight_decay),
      .learning_rate = static_cast<float>(step.learning_rate),
      .average = static_cast<float>(step.average_weight),
      .one_minus_average = static_cast<float>(1 - step.average_weight),
      .toward = static_cast<float>(1 - step.beta1)};
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).schedule_free;
  over_elements(x, [&](int64_t i, int64_t count) {
    kernel(scalars, count, gradient.data() + i, x.data() + i, d.data() + i, v.data() + i, at(y, i), at(narrow, i));
  });
}

void run_place(double beta1, std::span<const float> x, std::span<const float> d, std::span<float> y,
               std::span<bf16> narrow) {
  check_sizes("schedule_free_place", x.size(), {d.size(), y.size() + narrow.size()}, 0);
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).schedule_free_place;
  over_elements(x, [&](int64_t i, int64_t count) {
    kernel(static_cast<float>(1 - beta1), count, x.data() + i, d.data() + i, at(y, i), at(narrow, i));
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

void look_ahead(double keep, double take, std::span<float> gradient, std::span<float> buffer) {
  check_sizes("look_ahead", gradient.size(), {buffer.size()}, 0);
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).look_ahead;
  over_elements(gradient, [&](int64_t i, int64_t count) {
    kernel(static_cast<float>(keep), static_cast<float>(take), count, gradient.data() + i, buffer.data() + i);
  });
}

void direction_step(double decay, double step, std::span<float> direction, std::span<float> weight,
                    std::span<bf16> compute) {
  check_sizes("direction_step", weight.size(), {direction.size()}, compute.size());
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).direction;
  over_elements(weight, [&](int64_t i, int64_t count) {
    kernel(static_cast<float>(decay), static_cast<float>(step), count, direction.data() + i, weight.data() + i,
           at(compute, i));
  });
}

double decayed_squares(double scale, std::span<const float> gradient, double decay, std::span<const float> weight) {
  TERN_CHECK(gradient.size() == weight.size(), "decayed_squares: {} gradients, {} weights", gradient.size(),
             weight.size());
  return TERN_TABLE_OF(optimizer_table, active_isa())
      .decayed_squares(scale, decay, static_cast<int64_t>(weight.size()), gradient.data(), weight.data());
}

void lion_step(const LionStep& step, std::span<float> gradient, std::span<float> weight, std::span<float> m,
               std::span<bf16> compute) {
  check_sizes("lion_step", weight.size(), {gradient.size(), m.size()}, compute.size());
  const LionScalars scalars = {.gradient_scale = static_cast<float>(step.gradient_scale),
                               .beta1 = static_cast<float>(step.beta1),
                               .one_minus_beta1 = static_cast<float>(1 - step.beta1),
                               .beta2 = static_cast<float>(step.beta2),
                               .one_minus_beta2 = static_cast<float>(1 - step.beta2),
                               .decay = static_cast<float>(step.learning_rate * step.weight_decay),
                               .learning_rate = static_cast<float>(step.learning_rate)};
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).lion;
  over_elements(weight, [&](int64_t i, int64_t count) {
    kernel(scalars, count, gradient.data() + i, weight.data() + i, m.data() + i, at(compute, i));
  });
}

LambSums lamb_moments(const AdamwStep& step, std::span<float> gradient, std::span<const float> weight,
                      std::span<float> m, std::span<float> v) {
  check_sizes("lamb_moments", weight.size(), {gradient.size(), m.size(), v.size()}, 0);
  double sums[2] = {};
  TERN_TABLE_OF(optimizer_table, active_isa())
      .lamb_moments(lamb_scalars(step, 0), static_cast<int64_t>(weight.size()), gradient.data(), weight.data(),
                    m.data(), v.data(), sums);
  return {sums[0], sums[1]};
}

void lamb_step(const AdamwStep& step, double ratio, std::span<float> weight, std::span<const float> m,
               std::span<const float> v, std::span<bf16> compute) {
  check_sizes("lamb_step", weight.size(), {m.size(), v.size()}, compute.size());
  const LambScalars scalars = lamb_scalars(step, ratio);
  const auto kernel = TERN_TABLE_OF(optimizer_table, active_isa()).lamb;
  over_elements(weight, [&](int64_t i, int64_t count) {
    kernel(scalars, count, weight.data() + i, m.data() + i, v.data() + i, at(compute, i));
  });
}

void schedule_free_step(const ScheduleFreeStep& step, std::span<float> gradient, std::span<float> x, std::span<float> d,
                        std::span<float> v, std::span<float> y) {
  run_schedule_free(step, gradient, x, d, v, y, {});
}
void schedule_free_step(const ScheduleFreeStep& step, std::span<float> gradient, std::span<float> x, std::span<float> d,
                        std::span<float> v, std::span<bf16> y) {
  run_schedule_free(step, gradient, x, d, v, {}, y);
}
void schedule_free_place(double beta1, std::span<const float> x, std::span<const float> d, std::span<float> y) {
  run_place(beta1, x, d, y, {});
}
void schedule_free_place(double beta1, std::span<const float> x, std::span<const float> d, std::span<bf16> y) {
  run_place(beta1, x, d, {}, y);
}

}  // namespace tern
