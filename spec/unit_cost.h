#pragma once
// What a unit costs, in closed form: parameters, FLOPs, bytes. Bytes that are counted at run time must equal the closed
// forms to the byte. T: tokens of one micro-batch. P: attended (query, key) pairs per head, that is Σ over queries of
// the keys that the causal mask and the window let a query see.

#include <cstdint>
#include <functional>

#include "spec/model_spec.h"

namespace tern {

/// Products that a multiplier may want scratch memory for.
enum class ProductKind : uint8_t {
  forward,
  input_gradient,
  weight_gradient,
  head_loss,  // one kernel for the head's loss and both gradients: m rows, a vocabulary n, a width k. If ScratchBytes
              // gives 0, this multiplier has no such kernel and makes three products
  decoded,    // not a product: the decoded rows (n, k) of a coded matrix. If ScratchBytes gives 0, kernels read the
              // coded blocks and need no decoded rows
  expert_forward,  // an expert's forward, for any number of rows: always computed by the exact multiplier
};
/// Scratch bytes that the chosen multiplier needs for one product of m rows with w (n, k). Only kernels know this
/// number; spec/ does not. Empty function: no scratch.
using ScratchBytes = std::function<int64_t(ProductKind, int64_t m, int64_t n, int64_t k)>;

/// The head computes logits for this many rows at a time, in training and in evaluation: (kHeadTile, V) numbers, not (T, V).
inline constexpr int64_t kHeadTile = 128;
/// The same if one kernel computes the loss and both gradients.
inline constexpr int64_t kFusedHeadTile = 512;

/// One rank's work. Under tensor parallelism heads, hidden widths and vocabulary are split, and norms see ceil(T / tensor)
/// rows (sequence parallelism). With fewer key/value heads than ranks each rank has one such head; the vocabulary is padded.
/// The experts are cut into `expert` parts. `expert_tensor` ranks share a part: each has a slice of every expert in the part.
struct CostQuery {
  int64_t tokens = 0;          // T, of one micro-batch, before the split of the norms' rows
  int64_t attended_pairs = 0;  // P
  DType dtype = DType::f32;    // of weights and activations; gradients and norms' statistics are f32 (f64 if f64)
  ScratchBytes scratch;
  int64_t tensor = 1, expert = 1, expert_tensor = 1;  // expert_tensor: ranks that split each expert, 1 or `tensor`
  double capacity_factor = 1;  // rows that one of several expert ranks has room for, as a multiple of an even share
};

/// What one unit costs for one micro-batch, in bytes or FLOPs (a multiply-add is two; only matrix products and
/// attention count). The head's FORWARD is head_forward_loss, which computes the loss and both gradients of the
/// projection. So the head's backward_weight covers only the norm.
struct UnitCost {
  int64_t parameters = 0, parameter_bytes = 0;        // adapters included
  int64_t trained = 0;                                // parameters that have a gradient
  int64_t gradient_bytes = 0;                         // of the trained parameters, and own_table_gradient
  int64_t expert_parameters = 0, expert_trained = 0;  // the experts' part of the two: fewer ranks replicate it
  int64_t output_bytes = 0;                           // y, the next unit's x (0 for the head: it ends in a loss)
  int64_t saved_bytes = 0;                            // kept by FORWARD for the backward, beside the input x
  int64_t left_bytes = 0;                             // left by BACKWARD_INPUT for BACKWARD_WEIGHT, beside dy
  int64_t forward_workspace = 0, backward_input_workspace = 0, backward_weight_workspace = 0;  // peak of temporaries
  int64_t unsaved_workspace = 0;  // of a forward that keeps nothing (saved == nullptr: inference, or the first pass
                                  // before a RECOMPUTE); of the head: workspace of head_losses (model/unit.h)
  // Under tensor parallelism: bytes of the whole tensors that a pass gathers by rows, or sums and scatters by rows, over the
  // tensor group.
  int64_t forward_exchanged = 0, backward_input_exchanged = 0, backward_weight_exchanged = 0;
  int64_t forward_flops = 0, backward_input_flops = 0, backward_weight_flops = 0;
  int64_t forward_bytes_moved = 0, backward_input_bytes_moved = 0, backward_weight_bytes_moved = 0;
};
UnitCost unit_cost(const Unit&, const CostQuery&);
/// Elements of a unit's parameters of which several ranks of a tensor group hold copies. These ranks sum the
/// gradients (program/lower.h says when). all: copies on every rank (norms, positions, token types, biases of out and down). keys: if there
/// are fewer key/value heads than ranks, several ranks hold copies of one head's key and value rows.
struct AlikeParameters {
  int64_t all = 0, keys = 0;
};
AlikeParameters alike_parameters(const Unit&, int64_t tensor);
/// Doubles that each rank of a tensor group sends for a row of logits.
inline constexpr int64_t kNumbersOfARow = 3;

/// V·D: the elements of the gradient that a tied head keeps apart from the embedding table's gradient. The two are added after
/// the passes (program/lower.h says when), so that the order of the sum does not depend on the schedule. 0 for other units, and for a frozen head.
int64_t own_table_gradient(const Unit&, const CostQuery&);

/// Rows that the experts of one rank compute. If the rank has all experts: top_k · t. Else: ceil(f · top_k · t)
/// with f = min(capacity_factor, expert). An f above 1 leaves room for more than an even share. t is computed from CostQuery::tokens:
/// the rank's part of them (as for norms); all of them if each expert is split too (expert_tensor > 1).
int64_t expert_rows(const MoeSpec&, const CostQuery&);

}  // namespace tern
