#include "spec/sum_order.h"

#include <bit>

namespace tern {

SumFault check_sum_order(const SumOrder& order, int64_t num_shares, int64_t num_micro) {
  if (order.groups < 1 || num_micro % order.groups != 0) return SumFault::micro_not_divided;
  if (num_shares < 1 || order.groups % num_shares != 0) return SumFault::shares_not_divided;
  const auto each = static_cast<uint64_t>(order.groups / num_shares);
  return num_shares == 1 || std::has_single_bit(each) ? SumFault::none : SumFault::not_a_subtree;
}

std::vector<TreePair> tree_pairs(int leaves) {
  std::vector<TreePair> pairs;
  for (int step = 1; step < leaves; step *= 2)
    for (int left = 0; left + step < leaves; left += 2 * step) pairs.push_back({left, left + step});
  return pairs;
}

LeafStep leaf_step(int leaf, int leaves) {
  const auto done = static_cast<unsigned>(leaf) + 1;
  if (leaf + 1 < leaves) return {std::countr_zero(done), true};
  return {std::popcount(static_cast<unsigned>(leaf)), false};  // the sums that are kept: a bit of `leaf` each
}

}  // namespace tern
