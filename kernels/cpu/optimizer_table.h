#pragma once
// The optimizer kernels of one instruction set. Their scalars are computed once per step; optimizer.cpp splits elements over
// threads.

#include <cstdint>

#include "base/dtype.h"
#include "kernels/cpu/tables.h"

namespace tern {

struct AdamwScalars {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float decay;       // lr·wd
  float step;        // lr / (1-β1^t)
  float root_scale;  // 1 / sqrt(1-β2^t)
  float epsilon;
};
struct SgdScalars {
  float gradient_scale, weight_decay, momentum, learning_rate;
};

struct LionScalars {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2, decay, learning_rate;
};
struct LambScalars {
  float gradient_scale, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float inverse_correction;  // 1 / (1-β1^t)
  float root_scale;          // 1 / sqrt(1-β2^t)
  float epsilon, weight_decay;
  float step;  // lr·ratio
};
struct ScheduleFreeScalars {
  float gradient_scale, beta2, one_minus_beta2;
  float root_scale;  // 1 / sqrt(1-β2^t)
  float epsilon, weight_decay, learning_rate;
  float average, one_minus_average;  // c, 1-c
  float toward;                      // 1-β1
};

struct OptimizerTable {
  // `compute`, the velocity of SGD, and `cleared` (the gradient, where it is to become zero) may be null
  void (*adamw)(const AdamwScalars&, int64_t count, const float* gradient, float* cleared, float* weight, float* m,
                float* v, bf16* compute);
  void (*sgd)(const SgdScalars&, int64_t count, const float* gradient, float* weight, float* velocity, bf16* compute);
  void (*look_ahead)(float keep, float take, int64_t count, float* gradient, float* buffer);
  void (*direction)(float decay, float step, int64_t count, float* direction, float* weight, bf16* compute);
  double (*decayed_squares)(double scale, double decay, int64_t count, const float* gradient, const float* weight);
  void (*lion)(const LionScalars&, int64_t count, float* gradient, float* weight, float* m, bf16* compute);
  // sums[0] += Σ w², sums[1] += Σ r²
  void (*lamb_moments)(const LambScalars&, int64_t count, float* gradient, const float* weight, float* m, float* v,
                       double* sums);
  void (*lamb)(const LambScalars&, int64_t count, float* weight, const float* m, const float* v, bf16* compute);
  // one of y and narrow_y is null
  void (*schedule_free)(const ScheduleFreeScalars&, int64_t count, float* gradient, float* x, float* d, float* v,
                        float* y, bf16* narrow_y);
  void (*schedule_free_place)(float toward, int64_t count, const float* x, const float* d, float* y, bf16* narrow_y);
};
TERN_DECLARE_TABLES(OptimizerTable, optimizer_table)

}  // namespace tern
