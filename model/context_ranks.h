#pragma once
// Context parallelism by all-to-all: the ranks of a group have parts of a micro-batch's rows. For attention each swaps its rows of all
// heads for all rows of its heads, and back; everything else works on rows. Source: DeepSpeed Ulysses, Jacobs et al. 2023,
// arXiv:2309.14509.

#include <span>

#include "comm/comm.h"
#include "model/unit.h"

namespace tern {

/// A group, as one of its ranks sees it. Its Rows have its own tokens and positions, and the starts of all: equally many rows on each
/// rank, in rank order. All ranks pass through the same units in the same order.
struct ContextRanks {
  Comm& comm;
};

/// Why a unit cannot run in such a group, or "": "has 6 heads on a rank". `u` is the part of a tensor group.
std::string why_not_in_context(const AttentionSpec& u, int ranks);

/// The attention that one rank computes: its share of the heads; without a group `u` itself.
AttentionSpec heads_of_context(const AttentionSpec& u, const Compute&);
/// Rows that attention sees: all of the group's.
int64_t rows_of_context(const Rows&);

/// Turns own (t, Σ sections), each section of heads, into (all rows, Σ sections / ranks). Frees `own`, unless others
/// hold it; then writes to `into` or, if that is empty, to newly allocated workspace. Errors: TERN_CHECK: no group.
Tensor rows_for_heads(Tensor own, std::span<const int64_t> sections, Tensor into, const Compute&);
/// The reverse.
Tensor heads_for_rows(Tensor all, std::span<const int64_t> sections, Tensor into, const Compute&);

}  // namespace tern
