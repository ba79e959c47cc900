#pragma once
// The matrix products that a unit's FLOPs consist of, one by one.

#include <cstdint>
#include <vector>

#include "spec/model_spec.h"
#include "spec/unit_cost.h"

namespace tern {

/// One matrix product of a unit's forward, as one kernel: `count` products of m rows, n columns, depth k. The backward
/// has two of each: (m, k, n) for the input and (n, k, m) for the weights.
struct MatrixProduct {
  int64_t m, n, k, count;
  bool trained;            // has a weight gradient
  bool is_expert = false;  // of an expert, `count` of them
};
/// The products behind forward_flops, attention's own left out. Of a mixture of experts m is rounded up to whole rows for each
/// expert, so Σ 2·m·n·k·count may exceed forward_flops.
std::vector<MatrixProduct> unit_products(const Unit&, const CostQuery&);

}  // namespace tern
