#pragma once
// The three products of a linear layer y = x·wᵀ + b, by the multiplier that Compute names. T rows; w (out, in).
//   forward          y  = x·wᵀ + b
//   input gradient   dx = dy·w
//   weight gradient  dw += dyᵀ·x,  db += Σ rows of dy
// Behind each product every branch in turn adds its part. There y and dy are the branch's columns, s is its scale, A and B are its matrices:
//   forward          y  += s·h·Bᵀ,  h = x·Aᵀ
//   input gradient   dx += g·A,  g = s·dy·B
//   weight gradient  dB += dyᵀ·(s·h),  dA += gᵀ·x, of as many branches as `gradient` has;  h and g are made again, nothing is kept
// Branches of adapters that run beside each other (Branch::adapter) are for the forward alone: one product by w serves all
// rows, and each row gets the branches of its own adapter, so it has the bits that it would have with that adapter alone.
// What a product needs beside its operands (oneDNN's scratch, or the weight packed on the fly for an exact forward)
// comes from the arena as workspace, so that it is counted.

#include "kernels/cpu/thread_scratch.h"
#include "model/unit.h"
#include "spec/unit_cost.h"

namespace tern {

/// What the products take from the arena: the function that unit_cost asks. Weights that are already packed need none.
ScratchBytes scratch_bytes(Multiply, DType);
/// What compute threads keep of their own (kernels/cpu/thread_scratch.h), beside that scratch, for one kind of product of up to
/// m rows.
ThreadBytes thread_bytes(Multiply, DType, ProductKind, int64_t m, int64_t n, int64_t k);
/// Bytes that a library takes and gives back during one of those products, all threads together.
int64_t library_bytes(Multiply, DType, ProductKind, int64_t m, int64_t n, int64_t k);

/// Whether rows of a streamed band are multiplied as they lie, at `place` (an address, or an offset in a file); else they are
/// decoded for the time of a product.
bool multiplies_as_streamed(WeightType, int64_t head_dim, int64_t place, DType);

/// The scratch that linear_forward needs for `rows` rows, by the form of the weight. forward_scratch makes it once where many
/// calls share it (the head's tiles).
int64_t forward_scratch_bytes(const Linear&, int64_t rows, DType, Multiply);
Tensor forward_scratch(const Linear&, int64_t rows, DType, const Compute&);
/// The linear in a form that products read: itself, or, where the multiplier cannot read coded blocks (oneDNN, bf16 on tiles,
/// f64), a copy whose rows are decoded into workspace. Worth it for many products by one weight.
Linear readable(const Linear&, DType, const Compute&);
/// y may be of x's dtype, or f32 for bf16 x.
void linear_forward(const Linear&, const Tensor& x, const Tensor& y, const Tensor& scratch, const Compute&);
void linear_forward(const Linear&, const Tensor& x, const Tensor& y, const Compute&);
/// dx = dy·w and dw += dyᵀ·x. A coded weight gives dx the bits of its decoded rows. Errors of dx: TERN_CHECK if the weight is
/// neither dense nor coded, or coded for products in integers.
void linear_backward_input(const Linear&, const Tensor& dy, const Tensor& dx, const Compute&);
void linear_backward_weight(const Linear&, const Tensor& dy, const Tensor& x, const Linear& gradient, const Compute&);

}  // namespace tern
