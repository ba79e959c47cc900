#pragma once
// SumOrder: in which order the gradients of a step's micro-batches are summed. A run's bits depend on this order, but not
// on the number of data shares that sum in this order.

#include <cstdint>
#include <vector>

namespace tern {

/// The micro-batches of a step, numbered over all data shares, fall into `groups` groups of equal length, in order. The
/// gradients of a group start from zero and add up in order. The groups' sums are the leaves of a tree (tree_pairs).
/// With one group there is no tree: the sum is a chain over all micro-batches.
/// Shares: each of n data shares has groups / n groups, in order. If groups / n is a power of two, a data share's groups
///        are a whole subtree, and the data shares' sums are the leaves of the rest: the same bits for every such n.
struct SumOrder {
  int64_t groups = 1;
  friend bool operator==(const SumOrder&, const SumOrder&) = default;
};

/// Why `num_shares` data shares cannot sum `num_micro` micro-batches in this order; none: the data shares can.
enum class SumFault : uint8_t { none, micro_not_divided, shares_not_divided, not_a_subtree };
SumFault check_sum_order(const SumOrder&, int64_t num_shares, int64_t num_micro);

/// The tree over `leaves` summands: neighbours in pairs, level by level. A summand without a neighbour goes up alone.
/// Leaf `left` becomes left + right, in this order; at the end leaf 0 is the sum.
struct TreePair {
  int left, right;
  friend bool operator==(const TreePair&, const TreePair&) = default;
};
std::vector<TreePair> tree_pairs(int leaves);

/// The same tree for leaves that come one after the other: what happens when leaf `leaf` of `leaves` is complete. First
/// the newest `merges` kept sums are added to the leaf, the newest first, each as kept + leaf. Then the leaf is `kept`,
/// unless the leaf was the last. At most ⌈log₂ leaves⌉ sums are kept at once.
struct LeafStep {
  int merges = 0;
  bool kept = false;
};
LeafStep leaf_step(int leaf, int leaves);

}  // namespace tern
