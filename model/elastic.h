#pragma once
// IR-QLoRA's elastic connection: h = A·x + β₁·E₁·x, change = B·h + β₂·E₂·h. A and B are the adapter's matrices.
// E₁ and E₂ are paths beside them without parameters, which average and repeat; the two factors β are trained.
// Source: Qin et al. 2024, arXiv:2402.05445, §3.3 (recalled), and the authors' code (htqin/IR-QLoRA, utils.py,
// read). Their code needs one width to divide the other; for such widths its E is the same as here.

#include "model/linear_weight.h"
#include "tensor/arena.h"
#include "tensor/tensor.h"

namespace tern {

/// E (n, k) has no parameters: with g = gcd(n, k) groups on both sides, each of the n/g outputs of a group is the mean of its
/// k/g inputs.
/// Shapes  x, dx (rows, k); y, dy (rows, n).
/// Order   each mean sums its inputs in order, in the wide type (base/wide_type.h); no row depends on another.
/// y += factor·x·Eᵀ
void add_elastic(double factor, const Tensor& x, const Tensor& y);
/// The backward pass: dx += factor·dy·E.
void add_elastic_gradient(double factor, const Tensor& dy, const Tensor& dx);
/// Σ over rows of dy·(x·Eᵀ), the gradient of the factor: in f64, rows added in order.
double elastic_product(const Tensor& dy, const Tensor& x);

/// A branch's two trained shares, or two amounts to add to their gradients.
struct ElasticShares {
  double of_inputs = 0, of_hidden = 0;  // β₁, β₂
};
ElasticShares shares_of(const Branch&);
void add_to_shares(const ElasticShares&, const Branch& gradient);

/// Returns w + share·E (n, k) in the wide type: the A or B of an ordinary adapter.
Tensor with_elastic(const Tensor& w, double share, Arena&);

}  // namespace tern
