#pragma once
// The three products of a linear layer y = x·wᵀ + b. The weight's form and Compute::multiply say which code computes them. T rows; w (out, in).
//   forward          y  = x·wᵀ + b
//   input gradient   dx = dy·w
//   weight gradient  dw += dyᵀ·x,  db += Σ rows of dy
// After each product every branch adds its part in turn. For a branch, y and dy are its columns, s is its scale, A and B are its matrices:
//   forward          y  += s·h·Bᵀ,  h = x·Aᵀ
//   input gradient   dx += g·A,  g = s·dy·B
//   weight gradient  dB += dyᵀ·(s·h),  dA += gᵀ·x, for the branches that have gradients. h and g are computed anew, not kept.
// Branches of adapters that run beside each other (Branch::adapter) are for the forward alone: one product by w serves all
// rows, and each row gets the branches of its own adapter, so it has the bits that it would have with that adapter alone.
// What a product needs beside its operands (oneDNN's scratch, or the weight packed on the fly for an exact forward)
// comes from the arena as workspace, so that it is counted.

#include "kernels/cpu/thread_scratch.h"
#include "model/unit.h"
#include "spec/unit_cost.h"

namespace tern {

/// The function by which unit_cost asks how much the products take from the arena. Weights that are already packed need nothing.
ScratchBytes scratch_bytes(Multiply, DType);
/// Bytes that compute threads keep in buffers of their own (kernels/cpu/thread_scratch.h),
/// beside the scratch in the arena, for one kind of product of up to m rows.
ThreadBytes thread_bytes(Multiply, DType, ProductKind, int64_t m, int64_t n, int64_t k);
/// Bytes that a library takes during such a product and gives back after it, all threads together.
int64_t library_bytes(Multiply, DType, ProductKind, int64_t m, int64_t n, int64_t k);

/// Whether rows of a streamed band that lie at `place` (an address, or an offset in a
/// file) are multiplied as they lie; if not, they are decoded for the time of a product.
bool multiplies_as_streamed(WeightType, int64_t head_dim, int64_t place, DType);

/// Whether kernels read the blocks of coded weights; else their rows are decoded for the time of a product.
bool multiplies_blocks(Multiply, DType);

/// Whether a row of a forward product or of an input gradient has the same bits, whatever rows are multiplied with it: not if
/// oneDNN multiplies (docs/numerics.md). Errors: TERN_CHECK: another kind of product.
bool multiplies_rows_alone(Multiply, DType, ProductKind);

/// Bytes of scratch that linear_forward needs for `rows` rows; they depend on the weight's form.
/// forward_scratch makes this scratch once for several calls that share it (the head's tiles).
int64_t forward_scratch_bytes(const Linear&, int64_t rows, DType, Multiply);
Tensor forward_scratch(const Linear&, int64_t rows, DType, const Compute&);
/// Returns a linear that products can read: the same linear or, if it is coded and the multiplier cannot read coded blocks
/// (oneDNN, bf16 on tiles, f64), a copy whose rows are decoded into workspace. Use it for many products by one weight.
Linear readable(const Linear&, DType, const Compute&);
/// y may be of x's dtype, or f32 for bf16 x.
void linear_forward(const Linear&, const Tensor& x, const Tensor& y, const Tensor& scratch, const Compute&);
void linear_forward(const Linear&, const Tensor& x, const Tensor& y, const Compute&);
/// linear_backward_input: dx = dy·w; a coded weight gives the bits of its decoded rows. Errors: TERN_CHECK: the
/// weight is neither dense nor coded, or is coded for products in integers. linear_backward_weight: dw += dyᵀ·x.
void linear_backward_input(const Linear&, const Tensor& dy, const Tensor& dx, const Compute&);
void linear_backward_weight(const Linear&, const Tensor& dy, const Tensor& x, const Linear& gradient, const Compute&);

}  // namespace tern
