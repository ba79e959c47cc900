#pragma once
// Context parallelism: each rank of a group has a part of a micro-batch's rows. Attention either passes keys and values round a
// ring (model/ring_attention.h), or swaps rows for heads: a rank sends its rows of all heads and receives all rows of its share
// of the heads; after attention it does the reverse. Source of the swap: DeepSpeed Ulysses, Jacobs et al. 2023, arXiv:2309.14509.

#include <span>

#include "comm/comm.h"
#include "model/unit.h"

namespace tern {

/// A group as one of its ranks sees it. The rank's Rows hold its own tokens and positions, but the starts
/// of all sequences of the group. Each rank has equally many rows, divided in the order of ranks or, in a
/// ring, as rows_in_ring says (model/ring_rows.h). All ranks pass through the same units in the same order.
struct ContextRanks {
  Comm& comm;
  bool ring = false;  // keys and values go round (model/ring_attention.h); false: rows are swapped for heads
};
/// Whether attention swaps rows for heads.
bool swaps_heads(const Compute&);

/// Why a unit cannot run in a group that swaps, such as "has 6 heads on a rank"; "" if it can. u: this rank's part (tensor_part).
std::string why_not_in_context(const AttentionSpec& u, int ranks);

/// The attention that one rank computes: `u` with this rank's share of the heads if the group swaps rows for heads, else `u` itself.
AttentionSpec heads_of_context(const AttentionSpec& u, const Compute&);
/// The number of rows of the whole group. After a swap attention sees all of these rows.
int64_t rows_of_context(const Rows&);

/// own (t, Σ sections) → (t·ranks, Σ sections / ranks): all rows of this rank's heads. A section is the number of columns of
/// one kind of heads (queries, keys or values); each rank gets an equal part of every section. Frees `own` unless another
/// handle has it. Writes to `into`, or to new workspace if `into` is empty. Errors: TERN_CHECK: the group does not swap.
Tensor rows_for_heads(Tensor own, std::span<const int64_t> sections, Tensor into, const Compute&);
/// The reverse of rows_for_heads.
Tensor heads_for_rows(Tensor all, std::span<const int64_t> sections, Tensor into, const Compute&);

}  // namespace tern
