#include "program/pipeline_bound.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "program/pipeline_cut.h"

namespace tern {
namespace {

struct BoundDraw {
  std::mt19937_64 random;
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  }
  std::vector<int64_t> list(int n, int64_t low, int64_t high) {
    std::vector<int64_t> v(n);
    for (int64_t& x : v) x = between(low, high);
    return v;
  }
  PipelineShape shape(PipelineSchedule s) {
    const int p = static_cast<int>(between(1, 8)), m = static_cast<int>(between(1, 32));
    if (s == PipelineSchedule::interleaved)
      return {s, p, static_cast<int>(between(1, 3)), p * static_cast<int>(between(1, 5))};
    return {s, p, is_v_shaped(s) ? 2 : 1, m};
  }
  // Transfers none, light or heavy; every third with pauses before and after the step; some operations take no time.
  PipelineTimes times(const PipelineShape& shape, int kind) {
    const int s = shape.num_virtual_stages(), d = shape.num_devices;
    const int64_t send = std::array<int64_t, 3>{0, 150, 1000}[kind % 3], pause = kind % 9 >= 6 ? 2000 : 0;
    const int64_t least = kind % 10 == 0 ? 0 : 500;
    return {list(s, least, 1500), list(s, least, 2000), list(s, least, 1000), list(s - 1, 0, send),
            list(s - 1, 0, send), list(d, 0, pause),    list(d, 0, pause)};
  }
};

struct Tightness {
  int instances = 0, equal = 0;
  double worst = 0;
};
Tightness never_above(PipelineSchedule s, int instances) {
  BoundDraw draw{std::mt19937_64{40 + static_cast<uint64_t>(s)}};
  Tightness t;
  for (; t.instances < instances; ++t.instances) {
    const PipelineShape shape = draw.shape(s);
    const PipelineTimes times = draw.times(shape, t.instances);
    const int64_t makespan = run_pipeline(shape, pipeline_order(shape, times), times).makespan;
    const int64_t bound = pipeline_lower_bound(shape, times);
    EXPECT_LE(bound, makespan) << name_of(s) << " instance " << t.instances << ": p " << shape.num_devices << " m "
                               << shape.num_micro << " v " << shape.chunks_per_device;
    t.equal += bound == makespan;
    if (makespan > 0)
      t.worst = std::max(t.worst, static_cast<double>(makespan - bound) / static_cast<double>(makespan));
  }
  return t;
}

TEST(PipelineBound, IsNeverAboveTheSimulator) {
  for (const PipelineSchedule s : kPipelineSchedules) never_above(s, 1800);
}

// So that it does not rot: the shares and the looseness that the README gives, with some room.
TEST(PipelineBound, StaysAsTightAsItWas) {
  EXPECT_EQ(never_above(PipelineSchedule::gpipe, 900).worst, 0);
  const Tightness plain = never_above(PipelineSchedule::one_f_one_b, 1800),
                  deep = never_above(PipelineSchedule::deep_one_f_one_b, 900);
  EXPECT_GE(plain.equal, plain.instances * 40 / 100);
  EXPECT_LE(plain.worst, 0.12);
  EXPECT_GE(deep.equal, deep.instances * 80 / 100);
  EXPECT_LE(deep.worst, 0.07);
}

TEST(PipelineBound, OfLessIsABoundOfMore) {
  BoundDraw draw{std::mt19937_64{77}};
  for (int k = 0; k < 4000; ++k) {
    const PipelineShape shape = draw.shape(kPipelineSchedules[k % kPipelineSchedules.size()]);
    PipelineTimes times = draw.times(shape, k / static_cast<int>(kPipelineSchedules.size()));
    const int64_t more = pipeline_lower_bound(shape, times);
    for (std::vector<int64_t>* list : {&times.forward, &times.backward, &times.weight, &times.send_forward,
                                       &times.send_backward, &times.begin, &times.tail})
      for (int64_t& x : *list) x -= draw.between(0, x);
    ASSERT_LE(pipeline_lower_bound(shape, times), more) << name_of(shape.schedule) << " " << k;
  }
}

// The bound of two families of paths is one of ours: never tighter.
TEST(PipelineBound, IsAtLeastTheOneWithoutCycles) {
  BoundDraw draw{std::mt19937_64{78}};
  int tighter = 0;
  for (int k = 0; k < 1800; ++k) {
    const PipelineShape shape = draw.shape(PipelineSchedule::one_f_one_b);
    PipelineTimes t = draw.times(shape, k);
    std::fill(t.begin.begin(), t.begin.end(), 0);
    std::fill(t.tail.begin(), t.tail.end(), 0);
    const int p = shape.num_devices;
    const int64_t c = shape.num_micro;
    int64_t all = 0, before = 0, simple = 0;
    const auto stage = [&](int i) { return t.forward[i] + t.backward[i] + t.weight[i]; };
    for (int i = 0; i < p; ++i) all += stage(i) + (i + 1 < p ? t.send_forward[i] + t.send_backward[i] : 0);
    for (int i = 0; i < p; ++i) {
      const int64_t hold = std::min<int64_t>(c, p - i);
      simple = std::max(
          {simple, before + c * stage(i), all + (c - 1) * (t.backward[i] + t.weight[i]) + (c - hold) * t.forward[i]});
      before += stage(i) + (i + 1 < p ? t.send_forward[i] + t.send_backward[i] : 0);
    }
    const int64_t bound = pipeline_lower_bound(shape, t);
    ASSERT_GE(bound, simple) << k;
    tighter += bound > simple;
  }
  EXPECT_GE(tighter, 180);
}

TEST(PipelineBound, SeesWhatTransfersCostBalancedStages) {
  for (const int p : {2, 4, 8}) {
    const PipelineShape shape{PipelineSchedule::one_f_one_b, p, 1, 8 * p};
    const PipelineTimes t{std::vector<int64_t>(p, 1000),    std::vector<int64_t>(p, 2000),
                          std::vector<int64_t>(p, 0),       std::vector<int64_t>(p - 1, 300),
                          std::vector<int64_t>(p - 1, 300), std::vector<int64_t>(p, 0),
                          std::vector<int64_t>(p, 0)};
    const int64_t makespan = run_pipeline(shape, pipeline_order(shape, t), t).makespan;
    EXPECT_GE(pipeline_lower_bound(shape, t) * 100, makespan * 99) << p;
    EXPECT_GE(makespan * 100, (8 * p + p - 1) * int64_t{3000} * 107)
        << p;  // a tenth each way, and plain 1F1B pays for it
  }
}

TEST(PipelineCut, IsTheMakespanWhereItWasTakenAndABoundElsewhere) {
  BoundDraw draw{std::mt19937_64{79}};
  int tight = 0, others = 0;
  for (int k = 0; k < 1600; ++k) {
    const PipelineShape shape = draw.shape(kPipelineSchedules[k % kPipelineSchedules.size()]);
    const PipelineTimes times = draw.times(shape, k / static_cast<int>(kPipelineSchedules.size()));
    const PipelineOrder order = pipeline_order(shape, times);
    const PipelineCut cut = pipeline_cut(prepare_pipeline(shape, order), times);
    ASSERT_EQ(value(cut, times), run_pipeline(shape, order, times).makespan) << k << " " << name_of(shape.schedule);
    for (int other = 0; other < 3; ++other) {
      const PipelineTimes elsewhere = draw.times(shape, k + other);
      const int64_t makespan = run_pipeline(shape, order, elsewhere).makespan, bound = value(cut, elsewhere);
      ASSERT_LE(bound, makespan) << k << " " << name_of(shape.schedule);
      tight += bound * 100 >= makespan * 95;
      ++others;
    }
  }
  EXPECT_GE(tight, others / 10);  // a path that says something elsewhere too
}

TEST(PipelineCut, OfABalancedPipelinePassesEveryMicroBatchOfOneStage) {
  const PipelineShape shape{PipelineSchedule::one_f_one_b, 3, 1, 10};
  const PipelineTimes t{{1, 5, 1}, {1, 5, 1}, {0, 0, 0}, {0, 0}, {0, 0}, {0, 0, 0}, {2, 0, 0}};
  const PipelineCut cut = pipeline_cut(prepare_pipeline(shape, pipeline_order(shape, t)), t);
  EXPECT_EQ(cut.forward[1] + cut.backward[1], 20);  // the slow stage, all of it
  EXPECT_EQ(cut.tail, (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(value(cut, t), 1 + 10 * 10 + 1 + 2);
}

}  // namespace
}  // namespace tern
