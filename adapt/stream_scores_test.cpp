// Matrices worked out by hand.
#include "adapt/stream_scores.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(StreamScores, OfThreeTasks) {
  const StreamScores s{.accuracy = false,
                       .tasks = {"a", "b", "c"},
                       .before = {3, 4, 5},
                       .rows = {{1, 3.5, 4.5}, {1.25, 2, 4.75}, {1.5, 1.75, 2.5}},
                       .alone = {},
                       .together = {}};
  const StreamSummary m = summary_of(s);
  EXPECT_DOUBLE_EQ(m.average, (1.5 + 1.75 + 2.5) / 3);
  EXPECT_DOUBLE_EQ(*m.forgot, (0.5 - 0.25) / 2) << "a lost 0.5 since its best; b gained 0.25";
  EXPECT_DOUBLE_EQ(*m.backward, -(0.5 - 0.25) / 2);
  EXPECT_DOUBLE_EQ(*m.forward, ((4 - 3.5) + (5 - 4.75)) / 2);
}

// The best of a lies between its own row and the last.
TEST(StreamScores, ForgettingCountsFromTheBest) {
  const StreamScores s{.accuracy = false,
                       .tasks = {"a", "b", "c"},
                       .before = {3, 3, 3},
                       .rows = {{2, 3, 3}, {1, 2, 3}, {1.5, 2, 2}},
                       .alone = {},
                       .together = {}};
  EXPECT_DOUBLE_EQ(*summary_of(s).forgot, 0.25);
  EXPECT_DOUBLE_EQ(*summary_of(s).backward, 0.25);
}

// The shares of the same matrix as 1 - bits: what is lost is lost.
TEST(StreamScores, OfSharesOfRightAnswersMoreIsBetter) {
  const StreamScores s{.accuracy = true,
                       .tasks = {"a", "b", "c"},
                       .before = {0.25, 0.25, 0.5},
                       .rows = {{0.75, 0.25, 0.5}, {0.875, 1, 0.625}, {0.5, 0.75, 1}},
                       .alone = {},
                       .together = {}};
  const StreamSummary m = summary_of(s);
  EXPECT_DOUBLE_EQ(m.average, 0.75);
  EXPECT_DOUBLE_EQ(*m.forgot, ((0.875 - 0.5) + (1 - 0.75)) / 2);
  EXPECT_DOUBLE_EQ(*m.backward, ((0.5 - 0.75) + (0.75 - 1)) / 2);
  EXPECT_DOUBLE_EQ(*m.forward, ((0.25 - 0.25) + (0.625 - 0.5)) / 2);
  EXPECT_NE(table_of(s).find("share right"), std::string::npos);
}

TEST(StreamScores, OneTaskHasAnAverageAlone) {
  const StreamScores s{.accuracy = false, .tasks = {"a"}, .before = {3}, .rows = {{2}}, .alone = {}, .together = {}};
  EXPECT_DOUBLE_EQ(summary_of(s).average, 2);
  EXPECT_FALSE(summary_of(s).forgot || summary_of(s).backward || summary_of(s).forward);
  EXPECT_NE(table_of(s).find("after a"), std::string::npos);
}

}  // namespace
}  // namespace tern
