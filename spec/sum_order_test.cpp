#include "spec/sum_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <string>

namespace tern {
namespace {

// Sums as text show the order: "((0+1)+2)".
std::string plus(const std::string& a, const std::string& b) { return "(" + a + "+" + b + ")"; }

std::vector<std::string> leaves(int from, int count) {
  std::vector<std::string> all;
  for (int i = from; i < from + count; ++i) all.push_back(std::to_string(i));
  return all;
}

std::string by_pairs(std::vector<std::string> all) {
  for (const TreePair& p : tree_pairs(static_cast<int>(all.size()))) all[p.left] = plus(all[p.left], all[p.right]);
  return all[0];
}

std::string one_after_the_other(const std::vector<std::string>& all, size_t* most_kept = nullptr) {
  std::vector<std::string> kept;
  const int count = static_cast<int>(all.size());
  for (int leaf = 0; leaf < count; ++leaf) {
    std::string sum = all[leaf];
    const LeafStep step = leaf_step(leaf, count);
    for (int i = 0; i < step.merges; ++i) sum = plus(kept.back(), sum), kept.pop_back();
    if (!step.kept) return kept.empty() ? sum : "left over";
    kept.push_back(sum);
    if (most_kept) *most_kept = std::max(*most_kept, kept.size());
  }
  return "no last leaf";
}

TEST(SumOrder, TheTreePairsNeighboursLevelByLevel) {
  EXPECT_EQ(by_pairs(leaves(0, 1)), "0");
  EXPECT_EQ(by_pairs(leaves(0, 3)), "((0+1)+2)");
  EXPECT_EQ(by_pairs(leaves(0, 4)), "((0+1)+(2+3))");
  EXPECT_EQ(by_pairs(leaves(0, 7)), "(((0+1)+(2+3))+((4+5)+6))");
}

TEST(SumOrder, LeavesThatComeInTurnMakeTheSameTree) {
  for (int n = 1; n <= 200; ++n) {
    size_t kept = 0;
    EXPECT_EQ(one_after_the_other(leaves(0, n), &kept), by_pairs(leaves(0, n))) << n;
    EXPECT_EQ(tree_pairs(n).size(), static_cast<size_t>(n - 1));
    EXPECT_LE(kept, std::bit_width(static_cast<unsigned>(n - 1))) << n;
  }
}

// What data-parallel training rests on: a rank's groups are a subtree, and the ranks' sums its other levels.
TEST(SumOrder, EveryNumberOfRanksThatIsAllowedMakesTheSameTree) {
  int checked = 0;
  for (int groups = 1; groups <= 48; ++groups) {
    const std::string whole = by_pairs(leaves(0, groups));
    for (int ranks = 1; ranks <= groups; ++ranks) {
      if (check_sum_order({groups}, ranks, groups) != SumFault::none) continue;
      std::vector<std::string> sums;
      for (int r = 0; r < ranks; ++r) sums.push_back(one_after_the_other(leaves(r * groups / ranks, groups / ranks)));
      EXPECT_EQ(by_pairs(sums), whole) << groups << " groups on " << ranks << " ranks";
      ++checked;
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(SumOrder, WhatDoesNotDivideIsToldApart) {
  EXPECT_EQ(check_sum_order({4}, 2, 6), SumFault::micro_not_divided);
  EXPECT_EQ(check_sum_order({4}, 3, 8), SumFault::shares_not_divided);
  EXPECT_EQ(check_sum_order({6}, 2, 6), SumFault::not_a_subtree);
  EXPECT_EQ(check_sum_order({6}, 1, 6), SumFault::none);
  EXPECT_EQ(check_sum_order({6}, 3, 12), SumFault::none);
  EXPECT_EQ(check_sum_order({0}, 1, 4), SumFault::micro_not_divided);
}

}  // namespace
}  // namespace tern
