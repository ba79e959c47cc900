#pragma once
// NORM: the norm of all gradients of a step, and what else every UPDATE needs of all of them.

#include <cstdint>
#include <vector>

#include "comm/comm.h"
#include "update/pass.h"
#include "update/rule.h"

namespace tern {

/// NORM: what every UPDATE of the step needs of all gradients together. Changes nothing.
/// Order   sqrt of Σ over parameters, in the order of trained_parameters(spec), of sum_of_squares (doubles, fixed blocks); the
///         rule's own sums over the model (UpdateSums) in the same order, of clipped gradients.
/// Clip    PyTorch's clip_grad_norm_: coefficient min(1, clip / (norm + 1e-6)).
/// Ranks   of shared parameters each rank sums its own blocks; all ranks then exchange the sums, and get the bits of one rank. In
///         tensor groups each rank sums what it has that others do not count; the ranks' sums are added in rank order.
/// Errors  diverged: a gradient that is not finite, naming the step and the tensor. TERN_CHECK: shared parameters, and no world.
UpdateNorm gradient_norm(const UpdatePass&, Comm* world = nullptr);

/// Of one parameter, Σ x² of its gradient, as gradient_norm adds it. Only where it is whole.
double gradient_squares(const UpdatePass&, size_t parameter);
/// gradient_norm from each parameter's squares, if UPDATEs came before NORM; no sums of the rule. Errors: the same.
UpdateNorm norm_of_squares(const UpdatePass&, const std::vector<double>& squares);
/// Errors  diverged: the square is not finite; naming the parameter, and that others were updated already.
void require_finite_square(const UpdatePass&, size_t parameter, double square);

/// Bytes that each of so many ranks contributes to the exchange of NORM (block_value_bytes).
std::vector<int64_t> norm_value_bytes(const UpdatePass&, int ranks);

}  // namespace tern
