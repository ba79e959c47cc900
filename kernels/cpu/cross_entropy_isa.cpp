// Softmax cross-entropy of one row at a time; rows are shared among the threads.
//   M = max x,  S = Σ exp(x - M),  loss = log S + M - x_t,  dloss/dx_i = exp(x_i - M)/S - [i = t].
// A NaN logit does not reach M but reaches S, so loss and gradient are NaN as they should be.

#include "kernels/cpu/cross_entropy_table.h"
#include "kernels/cpu/vector_math_impl.h"

namespace tern::TERN_ISA_NAMESPACE {
namespace {

constexpr int kChains = 4;  // sums side by side, so that additions overlap
constexpr int64_t kParallelFrom = 1 << 14;

float row_max(const float* x, int64_t count) {
  Vec top[kChains];
  for (Vec& t : top) t = splat(x[0]);
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes)
    for (int c = 0; c < kChains; ++c) top[c] = max(load(x + i + c * kLanes), top[c]);
  float m = largest(max(max(top[0], top[1]), max(top[2], top[3])));
  for (; i < count; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

/// Σ exp(x - top), in chains of every kChains·kLanes-th element, then over chains, lanes, in fixed order. With `keep`
/// the exponentials are left there (keep may be x).
template <bool Keep>
float row_sum_exp(const float* x, int64_t count, float top, float* keep) {
  const Vec shift = splat(top);
  Vec total[kChains] = {};
  int64_t i = 0;
  for (; i + kChains * kLanes <= count; i += kChains * kLanes)
    for (int c = 0; c < kChains; ++c) {
      const Vec e = exp(load(x + i + c * kLanes) - shift);
      if constexpr (Keep) store(keep + i + c * kLanes, e);
      total[c] = total[c] + e;
    }
  for (int c = 0; i < count; i += kLanes, ++c) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    float lanes[kLanes] = {};
    store(lanes, exp(load(x + i, n) - shift), n);  // lanes beyond the row stay zero
    if constexpr (Keep) store(keep + i, load(lanes), n);
    total[c] = total[c] + load(lanes);
  }
  return sum((total[0] + total[1]) + (total[2] + total[3]));
}

float loss_of(float sum_exp, float top, float at_target) {
  return static_cast<float>(__builtin_log(static_cast<double>(sum_exp)) +
                            (static_cast<double>(top) - static_cast<double>(at_target)));
}

void scale_row(float* x, int64_t count, float factor) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t n = count - i < kLanes ? count - i : kLanes;
    store(x + i, load(x + i, n) * splat(factor), n);
  }
}

void forward_backward(int64_t vocab, int64_t rows, const int32_t* targets, const float* weights, float scale,
                      float* logits, float* losses) {
#pragma omp parallel for schedule(static) if (rows > 1 && rows * vocab >= kParallelFrom)
  for (int64_t r = 0; r < rows; ++r) {
    float* x = logits + r * vocab;
    if (targets[r] < 0) {
      losses[r] = 0.0f;
      for (int64_t i = 0; i < vocab; ++i) x[i] = 0.0f;
      continue;
    }
    const float at_target = x[targets[r]], top = row_max(x, vocab);
    const float total = row_sum_exp<true>(x, vocab, top, x);
    losses[r] = loss_of(total, top, at_target);
    const float factor = weights ? scale * weights[r] : scale;
    const float target_gradient = factor * (x[targets[r]] / total - 1.0f);
    scale_row(x, vocab, factor / total);
    x[targets[r]] = target_gradient;
  }
}

void losses_only(int64_t vocab, int64_t rows, const int32_t* targets, const float* logits, float* losses) {
#pragma omp parallel for schedule(static) if (rows > 1 && rows * vocab >= kParallelFrom)
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = logits + r * vocab;
    if (targets[r] < 0) {
      losses[r] = 0.0f;
      continue;
    }
    const float top = row_max(x, vocab);
    losses[r] = loss_of(row_sum_exp<false>(x, vocab, top, nullptr), top, x[targets[r]]);
  }
}

}  // namespace

const CrossEntropyTable cross_entropy_table = {.forward_backward = forward_backward, .losses = losses_only};

}  // namespace tern::TERN_ISA_NAMESPACE
