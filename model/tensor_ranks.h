#pragma once
// Tensor and sequence parallelism inside a unit: each rank of a group has a part of the unit's matrices (model/tensor_parts.h)
// and, between units, a part of the rows. qkv and up are cut by output rows and read all tokens, which are gathered first. out
// and down are cut by columns: each rank has a summand for all tokens, and gets the sum for its own tokens. The backward does
// the reverse. Source: Shoeybi et al. 2019, arXiv:1909.08053; rows: Korthikanti et al. 2022, arXiv:2205.05198.

#include "comm/comm.h"
#include "comm/exchange_beside.h"
#include "model/unit.h"
#include "spec/layout.h"

namespace tern {

/// A group as one of its ranks sees it. All ranks pass through the same units with the same Rows,
/// each with its part of the model (tensor_part), and call the functions below in the same order.
struct TensorRanks {
  Comm& comm;
  Interval
      tokens;  // the rows of the vocabulary that this rank has; its table may have further rows of zeros, which belong to
               // no token
  Comm* same_keys = nullptr;  // the ranks with this rank's key/value heads, if there are fewer such heads than ranks
  // If set, on every rank: rows of a product are exchanged by halves, which pass beside the product (tensor_pairs.cpp).
  ExchangeBeside* beside = nullptr;
};

/// The interval of `rows` rows that this rank has; all of them without a group.
Interval own_rows(int64_t rows, const Compute&);
/// Workspace for all `rows` rows, with this rank's own in their place. In a group.
Tensor room_with_own(const Tensor& own, int64_t rows, const Compute&);
/// All `rows` rows, gathered into workspace from each rank's own. Without a group `own` itself.
Tensor all_rows(const Tensor& own, int64_t rows, const Compute&);
/// The same in place: `all` already holds this rank's rows; those of the other ranks are gathered into it.
void complete_rows(const Tensor& all, const Compute&);
/// own = this rank's rows of Σ over ranks of `summand`, summed in the order that comm/comm.h states. `summand` is overwritten.
void sum_to_own_rows(const Tensor& summand, const Tensor& own, const Compute&);

/// The products of model/linear.h for a matrix of which each rank has some rows. own: this rank's tokens, whole width; y and dx: all tokens, one
/// column for each of these rows (dx: of the matrix's columns). Returns the gathered tokens, as all_rows does.
Tensor gathered_forward(const Linear&, const Tensor& own, const Tensor& y, const Compute&);
Tensor gathered_backward_input(const Linear&, const Tensor& own, const Tensor& dx, const Compute&);
/// The products of model/linear.h for a matrix of which each rank has some columns. x: all tokens, as wide as these columns; y and dy: this
/// rank's tokens, whole width. Each rank has the whole bias; its gradient comes from this rank's tokens alone, so the group must add it up.
void columns_forward(const Linear&, const Tensor& x, const Tensor& y, const Compute&);
void columns_backward_weight(const Linear&, const Tensor& dy, const Tensor& x, const Linear& gradient, const Compute&);
/// The input's gradient for a matrix of which each rank has some rows. dy: all tokens, one column for each of these rows; dx: this rank's tokens.
void rows_backward_input(const Linear&, const Tensor& dy, const Tensor& dx, const Compute&);

/// head_forward_loss for a group whose ranks divide the vocabulary. x: this rank's tokens; targets: of all tokens. For each tile of
/// rows the ranks exchange maximum, sum and the target's logit; each rank returns the whole loss.
double shared_head_loss(const HeadSpec&, const HeadWeights&, const Tensor& x_ND, std::span<const int32_t> targets,
                        double scale, HeadSaved& saved, HeadWeights& gradients, const Compute&);

}  // namespace tern
