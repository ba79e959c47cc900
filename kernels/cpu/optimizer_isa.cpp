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

void look_ahead(float keep, float take, int64_t count, float* gradient, float* buffer) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec g = load_some(gradient + i, n) * take, b = fma(splat(keep), load_some(buffer + i, n), g);
    store_some(buffer + i, b, n);
    store_some(gradient + i, fma(splat(keep), b, g), n);
  });
}

void direction(float decay, float step, int64_t count, float* direction, float* weight, bf16* compute) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec w = load_some(weight + i, n);
    const Vec updated = w - fma(splat(decay), w, load_some(direction + i, n) * step);
    store_some(weight + i, updated, n);
    store_some(direction + i, splat(0.0f), n);
    if (compute) store_some(compute + i, updated, n);
  });
}

double decayed_squares(double scale, double decay, int64_t count, const float* gradient, const float* weight) {
  constexpr int kChains = 8;
  double part[kChains] = {};
  const auto square = [&](int64_t i) {
    const double t = scale * static_cast<double>(gradient[i]) + decay * static_cast<double>(weight[i]);
    return t * t;
  };
  int64_t i = 0;
  for (; i + kChains <= count; i += kChains)
    for (int c = 0; c < kChains; ++c) part[c] += square(i + c);
  for (int c = 0; i < count; ++i, ++c) part[c] += square(i);
  return ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
}

void lion(const LionScalars& s, int64_t count, float* gradient, float* weight, float* m, bf16* compute) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec g = load_some(gradient + i, n) * s.gradient_scale, w = load_some(weight + i, n);
    const Vec before = load_some(m + i, n);
    const Vec u = fma(splat(s.beta1), before, g * s.one_minus_beta1);
    const Vec sign = select(u > 0.0f, splat(1.0f), select(u < 0.0f, splat(-1.0f), splat(0.0f)));
    const Vec updated = w - fma(splat(s.decay), w, sign * s.learning_rate);
    store_some(m + i, fma(splat(s.beta2), before, g * s.one_minus_beta2), n);
    store_some(weight + i, updated, n);
    store_some(gradient + i, splat(0.0f), n);
    if (compute) store_some(compute + i, updated, n);
  });
}

inline Vec lamb_direction(const LambScalars& s, Vec w, Vec first, Vec second) {
  const Vec root = fma(sqrt(second), splat(s.root_scale), splat(s.epsilon));
  return fma(splat(s.weight_decay), w, first * s.inverse_correction / root);
}

// Directions lie in a piece that stays in the first cache until their squares are added.
void lamb_moments(const LambScalars& s, int64_t count, float* gradient, const float* weight, float* m, float* v,
                  double* sums) {
  constexpr int64_t kPiece = 1024;
  float directions[kPiece];
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t size = count - at < kPiece ? count - at : kPiece;
    for_each_lanes(size, [&](int64_t k, int64_t n) {
      const int64_t i = at + k;
      const Vec g = load_some(gradient + i, n) * s.gradient_scale;
      const Vec first = fma(splat(s.beta1), load_some(m + i, n), g * s.one_minus_beta1);
      const Vec second = fma(splat(s.beta2), load_some(v + i, n), g * g * s.one_minus_beta2);
      store_some(m + i, first, n);
      store_some(v + i, second, n);
      store_some(gradient + i, splat(0.0f), n);
      store_some(directions + k, lamb_direction(s, load_some(weight + i, n), first, second), n);
    });
    sums[0] += decayed_squares(0, 1, size, weight + at, weight + at);
    sums[1] += decayed_squares(1, 0, size, directions, directions);
  }
}

void lamb(const LambScalars& s, int64_t count, float* weight, const float* m, const float* v, bf16* compute) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec w = load_some(weight + i, n);
    const Vec updated = fma(splat(-s.step), lamb_direction(s, w, load_some(m + i, n), load_some(v + i, n)), w);
    store_some(weight + i, updated, n);
    if (compute) store_some(compute + i, updated, n);
  });
}

inline void store_either(float* wide, bf16* narrow, int64_t i, Vec y, int64_t n) {
  if (wide)
    store_some(wide + i, y, n);
  else
    store_some(narrow + i, y, n);
}

void schedule_free(const ScheduleFreeScalars& s, int64_t count, float* gradient, float* x, float* d, float* v, float* y,
                   bf16* narrow_y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    const Vec g = load_some(gradient + i, n) * s.gradient_scale;
    const Vec average = load_some(x + i, n), apart = load_some(d + i, n);
    const Vec second = fma(splat(s.beta2), load_some(v + i, n), g * g * s.one_minus_beta2);
    const Vec root = fma(sqrt(second), splat(s.root_scale), splat(s.epsilon));
    const Vec u = fma(splat(s.weight_decay), fma(splat(s.toward), apart, average), g / root);
    const Vec e = fma(splat(-s.learning_rate), u, apart);
    const Vec moved = fma(splat(s.average), e, average), left = e * s.one_minus_average;
    store_some(v + i, second, n);
    store_some(x + i, moved, n);
    store_some(d + i, left, n);
    store_some(gradient + i, splat(0.0f), n);
    store_either(y, narrow_y, i, fma(splat(s.toward), left, moved), n);
  });
}

void schedule_free_place(float toward, int64_t count, const float* x, const float* d, float* y, bf16* narrow_y) {
  for_each_lanes(count, [&](int64_t i, int64_t n) {
    store_either(y, narrow_y, i, fma(splat(toward), load_some(d + i, n), load_some(x + i, n)), n);
  });
}

}  // namespace

const OptimizerTable optimizer_table = {.adamw = adamw,
                                        .sgd = sgd,
                                        .look_ahead = look_ahead,
                                        .direction = direction,
                                        .decayed_squares = decayed_squares,
                                        .lion = lion,
                                        .lamb_moments = lamb_moments,
                                        .lamb = lamb,
                                        .schedule_free = schedule_free,
                                        .schedule_free_place = schedule_free_place};

}  // namespace tern::TERN_ISA_NAMESPACE
