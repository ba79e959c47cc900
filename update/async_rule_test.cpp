// Ordered momentum as a state machine: any order of arrivals, barriers, buckets, dead workers; and the rules beside it.
#include "update/async_rule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "base/bug.h"
#include "base/rng.h"

namespace tern {
namespace {

constexpr int64_t kLength = 37;

Tensor numbers(std::vector<double>& storage) {
  return Tensor::borrow(DType::f64, {std::ssize(storage)}, storage.data());
}
std::vector<double> gradient(uint64_t number) {
  std::vector<double> g;
  for (uint64_t i = 0; i < kLength; ++i) g.push_back(random_normal({77, number}, i));
  return g;
}

struct Server {
  AsyncConfig config;
  AsyncClock clock{};
  std::vector<double> w = std::vector<double>(kLength, 1.0), u = std::vector<double>(kLength);
  void take(std::vector<double> g, int64_t index, double rate = 0.1) {
    apply_receipt(take_receipt(config, clock, index, rate), numbers(g), numbers(w),
                  config.rule == AsyncRule::asgd ? Tensor() : numbers(u));
  }
};

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i])), size = std::max(size, std::abs(a[i]));
  return most / std::max(size, 1e-300);
}

// A random course of workers: `take(worker, index, number of the gradient)` at each receipt; `leaves`: a worker that never comes back
// from its second work.
void random_course(int workers, int receipts, uint64_t seed, const std::function<void(int, int64_t, int64_t)>& take,
                   int leaves = -1) {
  struct Work {
    int64_t index, number;
    int works;
  };
  std::vector<Work> at;
  int64_t number = 0;
  for (int k = 0; k < workers; ++k) at.push_back({0, number++, 1});
  for (int t = 0; t < receipts; ++t) {
    int who;
    for (uint64_t turn = 0;; ++turn) {  // some workers are far slower than others
      who = static_cast<int>(random_u64({seed, static_cast<uint64_t>(t)}, turn) % static_cast<uint64_t>(workers));
      const double wanted = 1.0 / (1 + who % 4 * 5);
      if (who == leaves && at[static_cast<size_t>(who)].works >= 2) continue;
      if (random_uniform({seed, static_cast<uint64_t>(t) + 1'000'000}, turn) < wanted) break;
    }
    Work& work = at[static_cast<size_t>(who)];
    take(who, work.index, work.number);
    work = {t + 1, number++, work.works + 1};
  }
}

// A fixed set of gradients, each with its index; they come in any order that respects when indices are sent.
TEST(AsyncRule, OrderedMomentumEndsAlikeForEveryOrderOfArrival) {
  constexpr int kWorkers = 5, kReceipts = 60;
  // Each index's gradient: of index 0 there is one for each worker.
  Server want{.config = {.momentum = 0.9, .workers = kWorkers}};
  const auto gradient_of = [](int64_t index, int64_t which) {
    return gradient(static_cast<uint64_t>(1000 * index + which));
  };
  struct Arrival {
    int64_t index, which;
  };
  std::vector<Arrival> set;
  for (int k = 0; k < kWorkers; ++k) set.push_back({0, k});
  for (int64_t i = 1; i <= kReceipts - kWorkers; ++i) set.push_back({i, 0});
  for (const Arrival& a : set) want.take(gradient_of(a.index, a.which), a.index);
  double worst = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Server got{.config = want.config};
    std::vector<Arrival> left = set;
    for (uint64_t t = 0; !left.empty(); ++t) {
      // What has been sent by now: indices up to t, at most K of them under way.
      size_t sent = 0;
      while (sent < left.size() && left[sent].index <= static_cast<int64_t>(t)) ++sent;
      const size_t chosen = random_u64({seed, 5}, t) % sent;
      got.take(gradient_of(left[chosen].index, left[chosen].which), left[chosen].index);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(chosen));
    }
    worst = std::max({worst, apart(got.w, want.w), apart(got.u, want.u)});
    EXPECT_EQ(got.clock, want.clock);
  }
  EXPECT_LE(worst, 1e-12);
  RecordProperty("worst", std::to_string(worst));
  std::printf("200 orders of %d gradients of %d workers: %.2g apart at most\n", kReceipts, kWorkers, worst);
}

TEST(AsyncRule, ABarrierIsSynchronousMomentum) {
  for (const int workers : {1, 3, 8}) {
    Server got{.config = {.momentum = 0.9, .workers = workers}};
    std::vector<double> w(kLength, 1.0), u(kLength);
    for (uint64_t step = 0; step < 20; ++step) {
      for (double& x : u) x *= 0.9;
      for (int k = 0; k < workers; ++k) {
        const std::vector<double> g = gradient(step * 100 + static_cast<uint64_t>(k));
        for (size_t i = 0; i < u.size(); ++i) u[i] += 0.1 * g[i];
        got.take(g, static_cast<int64_t>(step) * workers);
      }
      for (size_t i = 0; i < w.size(); ++i) w[i] -= u[i];
      EXPECT_LE(apart(got.w, w), 1e-14) << "after step " << step << " of " << workers;
      EXPECT_LE(apart(got.u, u), 1e-14);
    }
  }
}

TEST(AsyncRule, TenThousandRandomCoursesNeverJumpTwoBuckets) {
  int64_t late = 0, turns = 0;
  for (uint64_t seed = 1; seed <= 10'000; ++seed) {
    const int workers = 1 + static_cast<int>(seed % 9);
    const AsyncConfig config{.momentum = 0.9, .workers = workers};
    AsyncClock clock;
    random_course(
        workers, 40, seed,
        [&](int, int64_t index, int64_t) {
          const AsyncStep s = take_receipt(config, clock, index, 1);  // checks the jump itself
          turns += s.turns, late += s.into_weights > 1;
        },
        workers > 2 && seed % 3 == 0 ? 1 : -1);
    ASSERT_EQ(clock.receipts, 40);
    ASSERT_LE(clock.bucket, (39 + workers - 1) / workers);
  }
  EXPECT_GT(late, 10'000);
  EXPECT_GT(turns, 10'000);
}

// The bucket of a dead worker's index stays short: the end is that of the gradients that came, on time.
TEST(AsyncRule, ADeadWorkersBucketStaysShort) {
  constexpr int kWorkers = 4;
  Server got{.config = {.momentum = 0.9, .workers = kWorkers}};
  std::map<int64_t, std::vector<double>> buckets;  // sums of the gradients of each
  random_course(
      kWorkers, 50, 9,
      [&](int, int64_t index, int64_t number) {
        const std::vector<double> g = gradient(static_cast<uint64_t>(number));
        got.take(g, index);
        std::vector<double>& sum = buckets.try_emplace((index + kWorkers - 1) / kWorkers, kLength, 0.0).first->second;
        for (size_t i = 0; i < g.size(); ++i) sum[i] += g[i];
      },
      2);
  std::vector<double> w(kLength, 1.0), u(kLength);
  for (int64_t b = 0; b <= got.clock.bucket; ++b) {
    for (size_t i = 0; i < u.size(); ++i) {
      u[i] *= 0.9;
      if (buckets.contains(b)) u[i] += 0.1 * buckets[b][i];
      w[i] -= u[i];
    }
  }
  EXPECT_LE(apart(got.w, w), 1e-12);
  EXPECT_LE(apart(got.u, u), 1e-12);
}

TEST(AsyncRule, TheRulesBesideIt) {
  const std::vector<double> g = gradient(3);
  Server plain{.config = {.rule = AsyncRule::asgd, .momentum = 0, .workers = 2}};
  plain.take(g, 0), plain.take(g, 0), plain.take(g, 1);
  Server naive{.config = {.rule = AsyncRule::momentum, .momentum = 0.5, .workers = 2}};
  naive.take(g, 0), naive.take(g, 0);
  Server alone{.config = {.rule = AsyncRule::ormo, .momentum = 0.5, .workers = 1}}, damped = alone;
  damped.config.rule = AsyncRule::ormo_da;
  for (int64_t t = 0; t < 5; ++t) alone.take(g, t), damped.take(g, t);
  for (size_t i = 0; i < g.size(); ++i) {
    EXPECT_NEAR(plain.w[i], 1 - 0.3 * g[i], 1e-14);
    EXPECT_NEAR(naive.w[i], 1 - (0.1 + 0.15) * g[i], 1e-14);
    EXPECT_EQ(alone.w[i], damped.w[i]) << "nothing is late";
  }
  const AsyncConfig da{.rule = AsyncRule::ormo_da, .momentum = 0.5, .workers = 2};
  AsyncClock clock{.receipts = 8, .bucket = 4};
  EXPECT_EQ(take_receipt(da, clock, 0, 1.0).into_momentum, std::pow(0.5, 4) * 4.0 / 8);
  EXPECT_EQ(take_receipt(da, clock, 5, 1.0).into_momentum, std::pow(0.5, 4 - 3))
      << "four late, of two workers: in full";
  EXPECT_THROW(take_receipt(da, clock, 11, 1.0), Bug);
}

}  // namespace
}  // namespace tern
