#pragma once
// SumOrder: in which order the gradients of a step's micro-batches are summed. It is part of what fixes a run's bits, and
// says which runs on other numbers of ranks have the same ones.

#include <cstdint>
#include <vector>

namespace tern {

/// The micro-batches of a step, numbered over all ranks, fall into `groups` of equal length that follow one another. The
/// gradients of a group start from zero and add up in order; the groups' sums are the leaves of a tree (tree_pairs). One
/// group: the plain chain over all micro-batches.
/// Ranks  n data-parallel ranks have groups / n groups each, one after the other. Where groups / n is a power of two, each rank's
///        groups are a whole subtree, and the ranks' sums are the leaves of the rest: the same bits for every such n.
struct SumOrder {
  int64_t groups = 1;
  friend bool operator==(const SumOrder&, const SumOrder&) = default;
};

/// Why `num_ranks` ranks cannot sum `num_micro` micro-batches in this order; none: they can.
enum class SumFault : uint8_t { none, micro_not_divided, ranks_not_divided, not_a_subtree };
SumFault check_sum_order(const SumOrder&, int64_t num_ranks, int64_t num_micro);

/// The tree over `leaves` summands: neighbours in pairs, level by level; what has no neighbour goes up alone. Leaf `left`
/// becomes left + right, in this order; leaf 0 is the sum.
struct TreePair {
  int left, right;
  friend bool operator==(const TreePair&, const TreePair&) = default;
};
std::vector<TreePair> tree_pairs(int leaves);

/// The same tree for leaves that come one after the other: what happens when leaf `leaf` of `leaves` is complete. The
/// kept sums at the top of the stack are added to it, the newest first, each as kept + leaf; then it is kept itself,
/// unless it was the last. At most ⌈log₂ leaves⌉ sums are kept at once.
struct LeafStep {
  int merges = 0;
  bool kept = false;
};
LeafStep leaf_step(int leaf, int leaves);

}  // namespace tern
