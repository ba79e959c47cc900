#include "train/uneven_rows.h"

#include <gtest/gtest.h>

#include <vector>

#include "spec/unit_cost.h"

namespace tern {
namespace {

TEST(UnevenRows, NamesTheRankWithTheMostRowsAndTheMemoryOfAll) {
  EXPECT_FALSE(uneven_rows({}));
  EXPECT_FALSE(uneven_rows(std::vector<RankRows>{{1.2, 0, 0}, {1.25, 0, 0}}));
  const auto all =
      uneven_rows(std::vector<RankRows>{{1.25, 0, 0}, {1.5, 3, 1 << 20}, {2.006, 9, 1 << 20}, {1.3, 1, 0}});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->rank, 2);
  EXPECT_EQ(all->more, 9);
  EXPECT_EQ(all->bytes, 2 << 20);
  EXPECT_EQ(
      describe_first(*all, 1.25),
      "in a pass 9 rows of the experts of rank 2 had no room in the predicted memory (--capacity-factor 1.25); 2.01 "
      "would have had room. No row is dropped; all ranks took 2.00 MiB beside the "
      "prediction (said once; how much it became is said at the end)");
  EXPECT_EQ(describe_all(*all, 1.25),
            "the experts of a rank got up to 2.01 times an even share of rows; the predicted memory has room for 1.25 "
            "(--capacity-factor), and 2.00 MiB more were taken");
}

// Of all numbers of rows that eight ranks may get. A ten-thousandth more is taken off, as expert_rows rounds its product up.
TEST(UnevenRows, TheFactorThatIsNamedHasRoomAndAHundredthLessHasNot) {
  MoeSpec mixture{};
  mixture.experts = 8, mixture.top_k = 3;
  for (const int64_t tokens : {1, 7, 33, 1000}) {
    const int64_t own = tokens * mixture.top_k;
    for (int64_t rows = own; rows <= 8 * own; ++rows) {
      const double factor = sufficient_factor(static_cast<double>(rows) / static_cast<double>(own));
      const auto room = [&](double f) {
        return expert_rows(mixture, {.tokens = tokens, .expert = 8, .capacity_factor = f});
      };
      ASSERT_GE(room(factor), rows) << factor;
      if (own > 100 && rows > own) ASSERT_LT(room(factor - 0.0101), rows) << factor;
    }
  }
}

}  // namespace
}  // namespace tern
