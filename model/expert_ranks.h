#pragma once
// Expert parallelism in a mixture: each rank of a group has an equal part of the experts, and all of the model's other weights. A rank
// routes its tokens, sends each row to the rank of the row's expert, and gets the result back. No row is dropped. Source: GShard,
// Lepikhin et al. 2020, arXiv:2006.16668, but without capacities of experts, as in MegaBlocks, arXiv:2211.15841 (both recalled).

#include <cstdint>
#include <vector>

#include "comm/comm.h"
#include "model/unit.h"

namespace tern {

/// Counts of the rows that one rank sends to experts and receives for its own experts.
struct RoutedRows {
  int64_t own = 0, left = 0,
          came = 0;   // in the last pass: rows of own tokens; those of them sent away; rows from other ranks
  double most = 0;    // the most rows that this rank's experts got in a pass, as a multiple of an even share
  int64_t more = 0;   // the most rows that this rank's experts got in a pass beyond the room of their tensors
  Arena beyond = {};  // counts the bytes of rows beyond that room (allocate_rows)
};

/// A group as one of its ranks sees it. Rank r of n has part r (from 0) of n equal parts of the
/// experts. All ranks pass through the same units in the same order, with equally many tokens each.
struct ExpertRanks {
  Comm& comm;
  double capacity_factor;  // as CostQuery's: the rows that this rank's experts have room for, over an even share
  RoutedRows& routed;
};

/// The rows that one rank's experts compute, sorted by expert, then by sending rank, then by token. Without a group the
/// rows are those of the rank's tokens.
struct ExpertRows {
  size_t first = 0;              // the first of the rank's experts
  std::vector<int64_t> begin{};  // rows begin[i] to begin[i + 1] are those of expert first + i
  int64_t room = 0;              // rows that tensors have room for: expert_rows of spec/unit_cost.h
  int64_t count() const { return begin.back(); }
};
/// `arrivals_E`: as tell_rows fills it; not read without a group.
ExpertRows expert_rows_here(const MoeSpec&, const Routing&, const Tensor& arrivals_E, const Compute&);

/// Tells each rank of the group how many rows it will get. Fills arrivals_E (experts), i32: entry
/// s·(experts of a rank) + i is the number of rows from rank s for expert i (from 0) of this rank.
void tell_rows(const MoeSpec&, const Routing&, const Tensor& arrivals_E, const Compute&);

/// own (tokens·top_k, width): rows of this rank's tokens, in the order of Routing. here (ExpertRows::count, width): rows of its experts.
/// rows_to_experts fills `here` from all ranks' `own`; rows_from_experts does the reverse. Errors: TERN_CHECK: no group; the transport's.
void rows_to_experts(const Routing&, const Tensor& arrivals_E, const Tensor& own, const Tensor& here, const Compute&);
void rows_from_experts(const Routing&, const Tensor& arrivals_E, const Tensor& here, const Tensor& own, const Compute&);

/// Allocates a tensor (rows.count(), width). The arena counts rows.room rows for it, however many came, so that
/// a Program's memory does not depend on the router. Rows beyond the room are counted in RoutedRows::beyond.
Tensor allocate_rows(DType, const ExpertRows& rows, int64_t width, MemoryClass, const Compute&);

}  // namespace tern
