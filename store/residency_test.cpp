#include "store/residency.h"

#include <gtest/gtest.h>

#include <bit>

#include "store/pass_time.h"

namespace tern {
namespace {

// Time of a steady pass if `stays` says what is resident: reading takes `load` per byte, a product `forward`.
int64_t time_of(const std::vector<PassExtent>& extents, uint32_t stays, int64_t load, int64_t forward, int slots) {
  std::vector<PassStep> steps;
  for (size_t i = 0; i < extents.size(); ++i)
    steps.push_back(
        {.load_ps = stays >> i & 1 ? 0 : extents[i].bytes * load, .forward_ps = extents[i].bytes * forward});
  return steady_pass_ps(steps, slots);
}

uint32_t bits(const std::vector<bool>& stays) {
  uint32_t mask = 0;
  for (size_t i = 0; i < stays.size(); ++i) mask |= uint32_t{stays[i]} << i;
  return mask;
}

TEST(Residency, OfEqualExtentsIsTheBestOfAllChoicesUpToTwelve) {
  for (int n = 1; n <= 12; ++n)
    for (int room = 0; room <= n; ++room) {
      const std::vector<PassExtent> extents(static_cast<size_t>(n), {.bytes = 100, .kept_bytes = 100});
      const uint32_t mine = bits(choose_resident(extents, room * 100 + 37));
      EXPECT_EQ(std::popcount(mine), room);
      for (const auto& [load, forward] : {std::pair{3, 1}, {1, 1}, {2, 3}, {7, 2}})
        for (const int slots : {2, 4}) {
          int64_t best = INT64_MAX;
          for (uint32_t stays = 0; stays < 1u << n; ++stays)
            if (std::popcount(stays) <= room) best = std::min(best, time_of(extents, stays, load, forward, slots));
          EXPECT_EQ(time_of(extents, mine, load, forward, slots), best)
              << n << " extents, room for " << room << ", load " << load << ", forward " << forward << ", " << slots
              << " slots, mask " << mine;
        }
    }
}

TEST(Residency, OfUnlikeExtentsReadsAtMostOneExtentMoreThanTheLeast) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::vector<PassExtent> extents;
    int64_t most = 0, all = 0;
    for (uint32_t i = 0; i < 11; ++i) {
      const int64_t bytes = 10 + static_cast<int64_t>((seed * 7919 + i * 104729) % 90);
      extents.push_back({.bytes = bytes, .kept_bytes = bytes});
      most = std::max(most, bytes), all += bytes;
    }
    const int64_t room = all * static_cast<int64_t>(seed % 11) / 11;
    const std::vector<bool> stays = choose_resident(extents, room);
    int64_t least = all;
    for (uint32_t mask = 0; mask < 1u << extents.size(); ++mask) {
      int64_t kept = 0;
      for (size_t i = 0; i < extents.size(); ++i) kept += mask >> i & 1 ? extents[i].bytes : 0;
      if (kept <= room) least = std::min(least, all - kept);
    }
    EXPECT_LE(all - streamed_bytes(extents, stays), room);
    EXPECT_LT(streamed_bytes(extents, stays), least + most) << "seed " << seed;
  }
}

TEST(Residency, SpreadsWhatStreams) {
  const std::vector<PassExtent> extents(100, {.bytes = 10, .kept_bytes = 10});
  const std::vector<bool> stays = choose_resident(extents, 750);
  int longest = 0, run = 0;
  for (const bool stay : stays) longest = std::max(longest, run = stay ? run + 1 : 0);
  EXPECT_EQ(longest, 3);
}

TEST(PassTime, OfEqualStepsIsTheClosedForm) {
  for (const int n : {1, 2, 5, 40})
    for (const auto& [load, forward] : {std::pair<int64_t, int64_t>{5, 3}, {3, 5}, {4, 4}, {1, 100}}) {
      const std::vector<PassStep> steps(static_cast<size_t>(n), {.load_ps = load, .forward_ps = forward});
      EXPECT_EQ(pass_times(steps, 1).end_ps, n * (load + forward));
      for (const int slots : {2, 3, 8})
        EXPECT_EQ(pass_times(steps, slots).end_ps, load + (n - 1) * std::max(load, forward) + forward);
      EXPECT_EQ(steady_pass_ps(steps, 3), n * std::max(load, forward));
      EXPECT_EQ(steady_pass_ps(steps, 1), n * (load + forward));
    }
}

TEST(PassTime, IsNeverBelowTheDiskOrTheProducts) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    std::vector<PassStep> steps;
    int64_t load = 0, forward = 0;
    for (uint64_t i = 0; i < 9; ++i) {
      const auto number = [&](uint64_t k) {
        return static_cast<int64_t>((seed * 31 + i * 17 + k * 7) * 2654435761u % 50);
      };
      steps.push_back({.load_ps = number(1) % 3 ? number(2) : 0, .forward_ps = number(3)});
      load += steps.back().load_ps, forward += steps.back().forward_ps;
    }
    for (const int slots : {1, 2, 4}) {
      EXPECT_GE(steady_pass_ps(steps, slots), std::max(load, forward));
      EXPECT_LE(steady_pass_ps(steps, slots), load + forward);
    }
    EXPECT_LE(steady_pass_ps(steps, 4), steady_pass_ps(steps, 2));
  }
}

}  // namespace
}  // namespace tern
