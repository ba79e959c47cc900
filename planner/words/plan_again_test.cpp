
#include <gtest/gtest.h>

#include "base/error.h"
#include "planner/outer/twin_test.h"
#include "planner/words/planned_points.h"
#include "planner/words/shadow_prices.h"
#include "planner/words/smallest_changes.h"
#include "spec/recompute.h"

namespace tern {
namespace {

PlanRequest request_of(int64_t batch) {
  PlanRequest r{.model = "small"};
  r.job = {.batch = batch, .seq = 4096};
  r.space.schedules = {PipelineSchedule::one_f_one_b};
  r.space.zero = {0, 3};
  r.space.recompute = {Recompute::none, Recompute::full};
  r.space.states = r.space.activations = {Tier::device};
  return r;
}

TEST(PlanQuestions, MoreOfAnythingIsNeverSlowerAndMemoryThatBindsIsWorthTime) {
  const ModelSpec spec = small_model(2);
  const PlanRequest r = request_of(8);
  for (const int64_t memory : {8, 60}) {
    const Cluster cluster = small_cluster(2, memory * kGB);
    const PlanAnswer a = plan_model(spec, cluster, r);
    ASSERT_TRUE(a.found);
    const std::vector<ShadowPrice> prices = shadow_prices(spec, cluster, r, a.plan);
    ASSERT_EQ(prices.size(), 4u) << "one node has no network";
    for (const ShadowPrice& s : prices) EXPECT_LE(s.step_ps, a.plan.step_ps) << s.what;
    EXPECT_EQ(prices[0].step_ps < a.plan.step_ps, memory == 8) << prices[0].what;
    EXPECT_LT(prices[2].step_ps, a.plan.step_ps) << prices[2].what;
    // The same as planning on such a machine.
    Cluster roomier = small_cluster(2, memory * kGB + 1'000'000'000);
    EXPECT_EQ(prices[0].step_ps, std::min(a.plan.step_ps, plan_model(spec, roomier, r).plan.step_ps));
  }
}

TEST(PlanQuestions, NodeCountsAreDoubledAndTheFrontHasNoBetterPoint) {
  const ModelSpec spec = small_model(2);
  Cluster cluster = small_cluster(2, 9 * kGB);
  cluster.groups[0].count = 3;
  cluster.network = {{"net", 8, 5'000'000, 1}};
  const PlanRequest r = request_of(12);
  const PlanAnswer whole = plan_model(spec, cluster, r);
  const auto points = plan_node_counts(spec, cluster, r, whole);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[2].step_ps, whole.plan.step_ps);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(points[static_cast<size_t>(i)].asked, i + 1);
  for (const PlannedPoint& p : points) {
    ASSERT_TRUE(p.found);
    bool beaten = false;
    for (const PlannedPoint& q : points)
      beaten |= q.devices <= p.devices && q.step_ps <= p.step_ps &&
                q.price_per_million_tokens() <= p.price_per_million_tokens() &&
                (q.devices < p.devices || q.step_ps < p.step_ps ||
                 q.price_per_million_tokens() < p.price_per_million_tokens());
    EXPECT_EQ(p.front, !beaten);
  }
  EXPECT_TRUE(points[0].front) << "the fewest devices";
}

TEST(PlanQuestions, BatchesArePlannedOneByOne) {
  const ModelSpec spec = small_model(2);
  const Cluster cluster = small_cluster(2, 20 * kGB);
  const auto points = plan_batches(spec, cluster, request_of(1), {4, 8});
  ASSERT_EQ(points.size(), 2u);
  for (const PlannedPoint& p : points)
    EXPECT_EQ(p.step_ps, plan_model(spec, cluster, request_of(p.asked)).plan.step_ps);
  EXPECT_EQ(doubling(3, 20), (std::vector<int64_t>{3, 6, 12, 20}));
  EXPECT_EQ(doubling(4, 4), (std::vector<int64_t>{4}));
}

// A stop, or too little time: what was not searched to its end is told, and no point is said to beat another.
TEST(PlanQuestions, AfterACutNothingIsMarked) {
  const ModelSpec spec = small_model(2);
  Cluster cluster = small_cluster(2, 9 * kGB);
  cluster.groups[0].count = 3;
  cluster.network = {{"net", 8, 5'000'000, 1}};
  PlanRequest r = request_of(12);
  PlanAnswer whole = plan_model(spec, cluster, r);
  EXPECT_TRUE(all_searched(plan_node_counts(spec, cluster, r, whole)));
  const std::atomic<bool> stop = true;
  r.stop = &stop;
  for (const auto& points : {plan_node_counts(spec, cluster, r, whole), plan_batches(spec, cluster, r, {4, 8, 12})}) {
    ASSERT_EQ(points.size(), 3u) << "each is told";
    EXPECT_FALSE(all_searched(points));
    EXPECT_FALSE(points[0].searched || points[1].searched);
    for (const PlannedPoint& p : points) EXPECT_FALSE(p.front);
  }
  for (const ShadowPrice& s : shadow_prices(spec, cluster, r, whole.plan)) EXPECT_TRUE(s.cut) << s.what;
  r.stop = nullptr;
  whole.interrupted = true;
  const auto points = plan_node_counts(spec, cluster, r, whole);
  EXPECT_TRUE(points[0].searched && points[1].found && points[2].cut);
  EXPECT_FALSE(points[0].front) << "the whole may be cheaper";
}

// The twin: every other value of every pinned axis alone, then of two, priced; the fastest that fits.
TEST(PlanQuestions, TheSmallestChangeIsTheFastestThatFitsWithTheFewestAxes) {
  const ModelSpec spec = small_model(2);
  const Cluster cluster = small_cluster(4, 10 * kGB);
  PlanRequest r = request_of(8);
  const SearchSpace homes;
  SearchSpace base = r.space;
  base.states = base.activations = {Tier::device};  // as without --offload
  const PinnedAxes pins =
      parse_pinned("tp=1,cp=1,dp=4,pp=1,chunks=1,micro-batch=2,micro-batches=1,zero=0,recompute=none,layers=even");
  r.space = pin(base, pins);
  ASSERT_FALSE(plan_model(spec, cluster, r).found);
  const auto changes = smallest_changes(spec, cluster, r, base, pins);
  ASSERT_FALSE(changes.empty());
  const auto step_of = [&](const PinnedAxes& p, std::string_view offload) {
    PlanRequest one = r;
    SearchSpace wide = base;
    if (offload == "states" || offload == "all") wide.states = homes.states;
    if (offload == "activations" || offload == "all") wide.activations = homes.activations;
    one.space = pin(wide, p);
    try {
      const PlanAnswer a = plan_model(spec, cluster, one);
      return a.found ? a.plan.step_ps : INT64_MAX;
    } catch (const Error&) { return INT64_MAX; }
  };
  int64_t single = INT64_MAX;
  PinnedAxes p = pins;
  p.zero = 3, single = std::min(single, step_of(p, "")), p = pins;
  p.recompute = Recompute::full, single = std::min(single, step_of(p, "")), p = pins;
  for (const char* offload : {"states", "activations"}) single = std::min(single, step_of(pins, offload));
  ASSERT_LT(single, INT64_MAX);
  EXPECT_EQ(changes[0].axes == 1 ? changes[0].step_ps : single, single);
  for (const SmallestChange& c : changes) {
    EXPECT_EQ(step_of(parse_pinned(c.pins), c.offload), c.step_ps)
        << c.words << ": what is told can be asked: " << c.pins << " " << c.offload;
    EXPECT_TRUE(c.axes == 1 || c.step_ps < single) << "a second axis has to be worth it";
  }
}

}  // namespace
}  // namespace tern
