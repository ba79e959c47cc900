#include "spec/owner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace tern {
namespace {

constexpr int64_t kB = kUpdateBlock;

TEST(Owner, EveryElementHasOneAndTheIntervalsSayTheSame) {
  const std::vector<std::vector<int64_t>> units{
      {1}, {kB}, {kB + 1, 7}, {3 * kB, 2 * kB - 1, 5}, {7, 9, 11}, {10 * kB + 3, 1, kB, kB / 2}};
  for (const auto& elements : units)
    for (int ranks = 1; ranks <= 9; ++ranks) {
      std::vector<int64_t> next(elements.size(), 0);
      int64_t fewest = INT64_MAX, most = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        int64_t blocks = 0;
        for (const OwnedInterval& o : owned_intervals(elements, rank, ranks)) {
          EXPECT_EQ(o.elements.begin, next[o.parameter]) << "in order, without gaps";
          EXPECT_EQ(o.elements.begin % kB, 0);
          EXPECT_TRUE(o.elements.end % kB == 0 || o.elements.end == elements[o.parameter]);
          next[o.parameter] = o.elements.end;
          blocks += (o.elements.size() + kB - 1) / kB;
          for (const int64_t e : {o.elements.begin, (o.elements.begin + o.elements.end) / 2, o.elements.end - 1})
            EXPECT_EQ(owner(elements, ranks, o.parameter, e), rank);
        }
        fewest = std::min(fewest, blocks), most = std::max(most, blocks);
      }
      EXPECT_EQ(next, elements) << "every element has an owner";
      EXPECT_LE(most - fewest, 1);
    }
}

TEST(Owner, RefusesElementsThatAreNotThere) {
  const std::array<int64_t, 1> elements{10};
  EXPECT_ANY_THROW(owner(elements, 2, 0, 10));
  EXPECT_ANY_THROW(owner(elements, 2, 1, 0));
}

}  // namespace
}  // namespace tern
