#pragma once
// Context parallelism by all-to-all: each rank of a group has a part of a micro-batch's rows. Before attention a rank
// swaps its rows of all heads for all rows of its heads; after attention it swaps back. All else works on rows. Source:
// DeepSpeed Ulysses, Jacobs et al. 2023, arXiv:2309.14509.

#include <span>

#include "comm/comm.h"
#include "model/unit.h"

namespace tern {

/// A group, as one of its ranks sees it. A rank's Rows hold its own tokens and positions, but the starts of all sequences
/// of the group. Each rank has equally many rows, in rank order, or in a ring those of rows_in_ring (model/ring_rows.h).
/// All ranks pass through the same units in the same order.
struct ContextRanks {
  Comm& comm;
  bool ring = false;  // keys and values go round (model/ring_attention.h); false: rows are swapped for heads
};
/// Whether attention swaps rows for heads.
bool swaps_heads(const Compute&);

/// Why a unit cannot run in such a group: "has 6 heads on a rank"; "": it can. u: this rank's part (tensor_part).
std::string why_not_in_context(const AttentionSpec& u, int ranks);

/// The attention that one rank computes: its share of the heads; without a group that swaps `u` itself.
AttentionSpec heads_of_context(const AttentionSpec& u, const Compute&);
/// Rows that attention sees: all of the group's.
int64_t rows_of_context(const Rows&);

/// own (t, Σ sections) → (t·ranks, Σ sections / ranks): all rows of this rank's heads. A section: columns of heads. Frees
/// `own` unless another handle has it. Writes to `into`, or, if empty, to new workspace. Errors: TERN_CHECK: no group.
Tensor rows_for_heads(Tensor own, std::span<const int64_t> sections, Tensor into, const Compute&);
/// The reverse.
Tensor heads_for_rows(Tensor all, std::span<const int64_t> sections, Tensor into, const Compute&);

}  // namespace tern
