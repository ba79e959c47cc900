#include "store/window_decisions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

using Sets = std::vector<std::vector<int>>;

// Sets that resemble the ones before: a record stays with probability 0.6, else it is drawn anew.
Sets some_sets(int records, int count, double share, uint64_t seed) {
  Sets sets(static_cast<size_t>(count));
  std::vector<bool> in(static_cast<size_t>(records));
  for (size_t t = 0; t < sets.size(); ++t)
    for (size_t r = 0; r < in.size(); ++r) {
      if (random_uniform({seed, 2 * t}, r) > 0.6) in[r] = random_uniform({seed, 2 * t + 1}, r) < share;
      if (in[r]) sets[t].push_back(static_cast<int>(r));
    }
  return sets;
}

// The definition: slots hold the union of the last sets, of as many as there is room for.
struct Brute {
  int uses, slots;
  Sets window = {};
  int64_t hits = 0, wanted = 0, shortened = 0;

  static std::set<int> united(const Sets& sets) {
    std::set<int> all;
    for (const auto& s : sets) all.insert(s.begin(), s.end());
    return all;
  }
  std::vector<int> want(const std::vector<int>& set) {
    if (uses == 0) window.clear();
    const std::set<int> kept = united(window);
    std::vector<int> missing;
    for (const int r : set)
      if (!kept.contains(r)) missing.push_back(r);
    wanted += std::ssize(set), hits += std::ssize(set) - std::ssize(missing);
    window.push_back(set);
    if (std::ssize(window) > std::max(uses, 1)) window.erase(window.begin());
    // A hit keeps its slot while older sets leave, so that what is read and what stays have room together.
    bool shorter = false;
    for (; std::ssize(united(window)) > slots; shorter = true) window.erase(window.begin());
    shortened += shorter;
    return missing;
  }
};

class WindowAgainstBrute : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(WindowAgainstBrute, SameMissesHitsAndSlots) {
  const auto [uses, slots] = GetParam();
  constexpr int kRecordsInWindow = 97;
  WindowDecisions decisions(kRecordsInWindow, {.uses = uses, .slots = slots});
  Brute brute{uses, slots};
  for (const auto& set : some_sets(kRecordsInWindow, 200, 0.2, 7)) {
    const std::vector<int> want = brute.want(set);
    const std::span<const int> got = decisions.want(set);
    ASSERT_TRUE(std::ranges::equal(got, want));
    const std::set<int> kept = Brute::united(brute.window);
    std::set<int> taken;
    for (int r = 0; r < kRecordsInWindow; ++r) {
      ASSERT_EQ(decisions.slot_of(r) >= 0, kept.contains(r)) << r;
      if (decisions.slot_of(r) < 0) continue;
      ASSERT_LT(decisions.slot_of(r), slots);
      ASSERT_TRUE(taken.insert(decisions.slot_of(r)).second) << "two records in a slot";
    }
    ASSERT_EQ(decisions.num_kept(), std::ssize(kept));
  }
  EXPECT_EQ(decisions.counts().wanted, brute.wanted);
  EXPECT_EQ(decisions.counts().hits, brute.hits);
  EXPECT_EQ(decisions.counts().shortened, brute.shortened);
  EXPECT_EQ(brute.hits > 0, uses > 0);
  EXPECT_EQ(brute.shortened > 0, uses > 1 && slots < 60);  // both roads are taken
}

INSTANTIATE_TEST_SUITE_P(UsesAndSlots, WindowAgainstBrute,
                         testing::Values(std::pair{0, 97}, std::pair{1, 97}, std::pair{5, 97}, std::pair{16, 97},
                                         std::pair{5, 40}, std::pair{16, 35}));

TEST(WindowDecisions, RefusesASetWithoutRoomAndChangesNothing) {
  WindowDecisions decisions(10, {.uses = 2, .slots = 3});
  decisions.want(std::vector{1, 4, 9});
  EXPECT_THROW(decisions.want(std::vector{0, 1, 2, 3}), Error);
  EXPECT_EQ(decisions.counts().wanted, 3);
  EXPECT_TRUE(decisions.want(std::vector{1, 4, 9}).empty());
}

TEST(WindowDecisions, ForgetsAllAfterAFailure) {
  WindowDecisions decisions(10, {.uses = 3, .slots = 6});
  decisions.want(std::vector{1, 4});
  decisions.want(std::vector{2, 4});
  decisions.forget_all();
  EXPECT_EQ(decisions.num_kept(), 0);
  EXPECT_EQ(decisions.want(std::vector{1, 2, 4}).size(), 3u);
}

}  // namespace
}  // namespace tern
