#include "kernels/cpu/shares.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <vector>

namespace tern {
namespace {

TEST(TaskShares, EveryTaskIsTakenOnceByAnyTeam) {
  for (const int64_t count : {0, 1, 2, 7, 64, 65, 20000})
    for (const int64_t threads : {1, 2, 3, 64, 200})  // that were expected
      for (const int team : {1, 2, 8})                // that came
        for (const int64_t most : {1, 3, 5000}) {
          TaskShares shares;
          share_tasks(count, threads, shares);
          std::vector<std::atomic<int>> taken(static_cast<size_t>(count));
          std::atomic<int64_t> longest = 0;
#pragma omp parallel num_threads(team)
          {
#pragma omp barrier  // all begin together, so that they meet
            for (;;) {
              const TaskRange range = take_tasks(shares, omp_get_thread_num(), most);
              if (range.begin == range.end) break;
              if (range.end - range.begin > most) longest = range.end - range.begin;
              for (int64_t i = range.begin; i < range.end; ++i) ++taken[static_cast<size_t>(i)];
            }
          }
          EXPECT_TRUE(std::ranges::all_of(taken, [](const std::atomic<int>& times) { return times == 1; }))
              << count << " tasks in shares for " << threads << ", a team of " << team << ", at most " << most;
          EXPECT_EQ(longest, 0) << "more than " << most;
          EXPECT_EQ(take_tasks(shares, 0, most).begin, take_tasks(shares, 0, most).end);
        }
}

TEST(TaskShares, AMemberTakesItsShareInOrderThenTheOthers) {
  for (const auto& [threads, member, first] : {std::array<int64_t, 3>{4, 2, 50}, {4, 0, 0}, {100, 65, 1}}) {
    TaskShares shares;
    share_tasks(100, threads, shares);
    for (int64_t i = 0; i < 100; ++i) {
      const TaskRange range = take_tasks(shares, member, 1);
      EXPECT_EQ(range.begin, (first + i) % 100) << "member " << member << " of " << threads;
    }
  }
}

TEST(TaskShares, RangesGetShorterTowardsTheEndOfAShare) {
  TaskShares shares;
  share_tasks(1000, 1, shares);
  std::vector<int64_t> sizes;
  for (TaskRange range; (range = take_tasks(shares, 0, 100)).begin < range.end;)
    sizes.push_back(range.end - range.begin);
  EXPECT_TRUE(std::ranges::is_sorted(sizes, std::greater()));
  EXPECT_EQ(sizes.front(), 100);
  EXPECT_EQ(sizes.back(), 1);
}

}  // namespace
}  // namespace tern
