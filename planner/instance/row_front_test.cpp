#include "planner/instance/row_front_impl.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tern {
namespace {

using FrontRow = std::vector<int64_t>;

bool nowhere_larger(const FrontRow& a, const FrontRow& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](int64_t x, int64_t y) { return x <= y; });
}

TEST(RowFront, AnswersAsEveryRowAskedInTurn) {
  std::mt19937_64 draw(7);
  for (int numbers = 1; numbers <= 9; ++numbers)
    for (const int64_t range : {2, 5, 40}) {
      RowFront front(numbers);
      std::vector<FrontRow> kept;
      int covered = 0;
      for (int i = 0; i < 300; ++i) {
        FrontRow row(static_cast<size_t>(numbers));
        for (int64_t& x : row) x = static_cast<int64_t>(draw() % static_cast<uint64_t>(range)) - 1;
        const bool covers =
            std::any_of(kept.begin(), kept.end(), [&](const FrontRow& k) { return nowhere_larger(k, row); });
        const bool worse =
            std::any_of(kept.begin(), kept.end(), [&](const FrontRow& k) { return nowhere_larger(row, k); });
        ASSERT_EQ(front.covers(row.data()), covers) << numbers << " numbers, row " << i;
        ASSERT_EQ(front.has_worse(row.data()), worse) << numbers << " numbers, row " << i;
        covered += covers;
        if (covers && i % 3 != 0) continue;  // some are kept all the same, so that fronts grow long
        front.push(row.data());
        kept.push_back(row);
        ASSERT_EQ(front.size(), static_cast<int>(kept.size()));
      }
      EXPECT_GT(covered, 0);
      front.clear();
      EXPECT_FALSE(front.covers(FrontRow(static_cast<size_t>(numbers), 1000).data()));
      EXPECT_FALSE(front.has_worse(FrontRow(static_cast<size_t>(numbers), -1000).data()));
    }
}

TEST(RowFront, PlacesWithoutARowCoverNothing) {
  RowFront front(2);
  const FrontRow kept{5, 5}, largest{std::numeric_limits<int64_t>::max(), 4}, least{6, 6};
  front.push(kept.data());
  EXPECT_FALSE(front.covers(largest.data()));
  EXPECT_FALSE(front.has_worse(least.data()));
}

}  // namespace
}  // namespace tern
