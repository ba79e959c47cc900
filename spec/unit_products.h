#pragma once
// The matrix products that a unit's FLOPs consist of, one by one.

#include <cstdint>
#include <vector>

#include "spec/model_spec.h"
#include "spec/unit_cost.h"

namespace tern {

/// One matrix product of a unit's forward, run as one kernel: `count` products of m rows, n columns, depth k. For each
/// product the backward has two: (m, k, n) for the input's gradient and (n, k, m) for the weights' gradient.
struct MatrixProduct {
  int64_t m, n, k, count;
  bool trained;            // has a weight gradient
  bool is_expert = false;  // products of experts; `count` is the number of experts
};
/// The products of a unit's forward that multiply by weights: forward_flops without those of attention and of the head's
/// gradients. An expert's m is rounded up to whole rows, so Σ 2·m·n·k·count may exceed the FLOPs of these products.
std::vector<MatrixProduct> unit_products(const Unit&, const CostQuery&);

}  // namespace tern
