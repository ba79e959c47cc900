#include "planner/outer/pipeline_pool.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"

namespace tern {
namespace {

bool never_late() { return false; }

// A random model on two types of devices.
struct Model {
  Instance base;
  TierBytes capacity[2];

  Instance pipeline(const std::vector<int>& order, int num_micro) const {
    Instance in = base;
    in.num_stages = static_cast<int>(order.size()), in.num_micro = num_micro;
    in.stage_type = order, in.capacity.clear();
    for (const int type : order) in.capacity.push_back(capacity[type]);
    return in;
  }
  // Every order of the stages.
  template <class Visit>
  void for_each_order(const std::vector<int>& uses, const Visit& visit) const {
    std::vector<int> order(static_cast<size_t>(uses[0]), 0);
    order.insert(order.end(), static_cast<size_t>(uses[1]), 1);
    if (static_cast<int>(order.size()) > base.num_layers()) return;
    do { visit(order); } while (std::next_permutation(order.begin(), order.end()));
  }
};

Model model_of(uint64_t seed) {
  RandomInstance r{.layers = 3 + static_cast<int>(seed % 2), .strategies = 2 + 2 * static_cast<int>(seed / 2 % 2)};
  r.stages = 2, r.types = 2, r.tails = seed % 3 == 0, r.begins = seed % 5 == 0, r.transients = seed % 4 == 0;
  r.memory = seed % 7 == 0 ? 0.2 : 0.7;
  Model m{random_instance(r, seed), {}};
  for (int type = 0; type < 2; ++type)
    for (size_t t = 0; t < kTiers; ++t)
      m.capacity[type][t] = m.base.capacity[0][t] * (type == 0 ? 6 : 4 + static_cast<int64_t>(seed % 4)) / 5;
  return m;
}

// Every way to cut the pool into so many pipelines and to share the micro-batches out, each pipeline by brute force.
struct Twin {
  const Model& model;
  std::map<std::pair<std::vector<int>, int>, int64_t> known = {};

  int64_t makespan(const std::vector<int>& uses, int m) {
    const auto [at, fresh] = known.try_emplace({uses, m}, kNever);
    if (!fresh) return at->second;
    int64_t best = kNever;
    model.for_each_order(uses, [&](const std::vector<int>& order) {
      best = std::min(best, brute_force(model.pipeline(order, m)).value);
    });
    return known[{uses, m}] = best;
  }
  int64_t best(std::vector<int> left, int pipelines, int micro) {
    if (pipelines == 0) return micro == 0 ? 0 : kNever;
    int64_t least = kNever;
    for (int a = 0; a <= left[0]; ++a)
      for (int b = 0; b <= left[1]; ++b)
        for (int m = 1; m <= micro && a + b > 0; ++m) {
          const int64_t own = makespan({a, b}, m);
          if (own >= least) continue;
          least = std::min(least, std::max(own, best({left[0] - a, left[1] - b}, pipelines - 1, micro - m)));
        }
    return least;
  }
};

PoolProblem problem_of(const Model& model, std::vector<int> devices, int pipelines, int micro) {
  PoolProblem p{.devices = std::move(devices), .pipelines = pipelines, .num_micro = micro, .bound = {}, .solve = {}};
  p.bound = [&model](const std::vector<int>& uses, int m) {
    int64_t least = kNever;
    model.for_each_order(uses, [&](const std::vector<int>& order) {
      Instance any = model.pipeline(order, m);
      any.stage_type.assign(order.size(), kAnyType);
      for (TierBytes& c : any.capacity)
        for (size_t t = 0; t < kTiers; ++t) c[t] = std::max(model.capacity[0][t], model.capacity[1][t]);
      least = std::min(least, quick_bound(any));
    });
    return least;
  };
  p.solve = [&model](const std::vector<int>& uses, int m) {
    int64_t least = kNever;
    model.for_each_order(uses, [&](const std::vector<int>& order) {
      const SearchResult r = search(model.pipeline(order, m));
      if (r.found) least = std::min(least, r.value_ps);
    });
    return PoolProblem::Solved{least, least};
  };
  return p;
}

TEST(PipelinePool, EqualsEveryCutAndShare) {
  int found = 0, unlike = 0;
  int64_t columns = 0, searched = 0;
  for (uint64_t seed = 0; seed < 140; ++seed) {
    const Model model = model_of(seed);
    const std::vector<int> devices{2, 1 + static_cast<int>(seed / 3 % 2)};
    const int pipelines = 1 + static_cast<int>(seed % 3), micro = 3 + static_cast<int>(seed / 4 % 2);
    Twin twin{model};
    const int64_t want = twin.best(devices, pipelines, micro);
    const PoolAnswer got = share_pool(problem_of(model, devices, pipelines, micro), kNever, never_late);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << pipelines << " pipelines");
    ASSERT_EQ(got.found, want < kNever);
    if (!got.found) {
      EXPECT_EQ(got.bound, kNever);
      continue;
    }
    ++found, columns += got.columns, searched += got.searched;
    EXPECT_EQ(got.makespan, want);
    EXPECT_EQ(got.bound, want);
    int shared = 0;
    std::vector<int> left = devices;
    for (const PoolPipeline& p : got.pipelines) {
      EXPECT_LE(p.makespan, want);
      EXPECT_EQ(p.makespan, twin.makespan(p.uses, p.num_micro));
      shared += p.num_micro, left[0] -= p.uses[0], left[1] -= p.uses[1];
    }
    EXPECT_EQ(shared, micro);
    EXPECT_GE(std::min(left[0], left[1]), 0);
    unlike += pipelines > 1 && got.pipelines.front().uses != got.pipelines.back().uses;
    // Only what is below is wanted.
    EXPECT_FALSE(share_pool(problem_of(model, devices, pipelines, micro), want, never_late).found);
    EXPECT_TRUE(share_pool(problem_of(model, devices, pipelines, micro), want + 1, never_late).found);
  }
  EXPECT_GT(found, 100);
  EXPECT_GT(unlike, 20);
  EXPECT_LT(searched, columns);
}

TEST(PipelinePool, AnInterruptKeepsARightBound) {
  int open = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Model model = model_of(seed);
    const int64_t best = share_pool(problem_of(model, {2, 2}, 2, 4), kNever, never_late).makespan;
    for (int most = 0; most < 6; ++most) {
      int asked = 0;
      const PoolAnswer a = share_pool(problem_of(model, {2, 2}, 2, 4), kNever, [&] { return asked++ >= most; });
      if (best == 0) continue;
      EXPECT_LE(a.bound, best);
      if (a.found) { EXPECT_GE(a.makespan, best); }
      open += !a.found || a.bound < a.makespan;
    }
  }
  EXPECT_GT(open, 20);
}

TEST(PipelinePool, RefusesPoolsWithoutEnd) {
  PoolProblem p{.devices = {2000, 2000}, .bound = {}, .solve = {}};
  EXPECT_THROW(share_pool(p, kNever, never_late), Error);
}

}  // namespace
}  // namespace tern
