#pragma once
// The optimizer kernels of one instruction set, with the step's scalars worked out; optimizer.cpp splits elements over
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

struct OptimizerTable {
  // `compute`, the velocity of SGD, and `cleared` (the gradient, where it is to become zero) may be null
  void (*adamw)(const AdamwScalars&, int64_t count, const float* gradient, float* cleared, float* weight, float* m,
                float* v, bf16* compute);
  void (*sgd)(const SgdScalars&, int64_t count, const float* gradient, float* weight, float* velocity, bf16* compute);
};
TERN_DECLARE_TABLES(OptimizerTable, optimizer_table)

}  // namespace tern
