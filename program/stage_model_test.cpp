// The stage model's one formula against figures by hand. That Programs agree with it is lower_test's claim.
#include "program/stage_model.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tern {
namespace {

using TimesOfStages = std::vector<int64_t>;

// Three layers on two stages: [0, 1], [2].
Instance three_layers(PipelineSchedule schedule) {
  Instance in{.num_stages = 2, .num_micro = 4, .schedule = schedule};
  CostVector c{.forward = 10, .backward = 20, .weight = 5, .recompute = 7, .entry_forward = 2, .entry_backward = 3};
  c.begin = 4, c.sync = 30, c.update = 6;
  c.persistent = {1000, 50, 7}, c.held = {100, 3, 0}, c.held_weight = 60, c.transient = 40;
  in.cost = {{c}, {c}, {c}};
  in.cost[1][0].sync = 50, in.cost[1][0].transient = 90;
  in.within = {{{11, 13}}, {{100, 100}}};  // the second lies between two stages
  in.across = {{{200, 200}}, {{17, 19}}};
  in.capacity.assign(2, TierBytes{});
  return in;
}
const Assignment kTwoAndOne{{0, 0, 1}, {0, 0, 0}};

TEST(StageModel, AddsALayersTimesByHand) {
  const PipelineTimes t = stage_times(three_layers(PipelineSchedule::one_f_one_b), kTwoAndOne);
  EXPECT_EQ(t.forward, (TimesOfStages{10 + 11 + 10 + 2, 10 + 2}));
  EXPECT_EQ(t.backward, (TimesOfStages{2 * (20 + 7) + 13 + 3, 20 + 7 + 3}));
  EXPECT_EQ(t.weight, (TimesOfStages{10, 5}));
  EXPECT_EQ(t.send_forward, (TimesOfStages{17}));
  EXPECT_EQ(t.send_backward, (TimesOfStages{19}));
  EXPECT_EQ(t.begin, (TimesOfStages{8, 4}));
  // Layer 1 leaves 50 on the link, of which layer 0's 20 + 7 + 5 and the resharding's 13 work off 45; 30 more come.
  EXPECT_EQ(t.tail, (TimesOfStages{50 - 45 + 30 + 12, 30 + 6}));
}

TEST(StageModel, AWeightGradientOfItsOwnAloneHidesSynchronisation) {
  const PipelineTimes t = stage_times(three_layers(PipelineSchedule::zb_h1), kTwoAndOne);
  EXPECT_EQ(t.tail, (TimesOfStages{50 - 5 + 30 + 12, 30 + 6}));
}

TEST(StageModel, TakesTheHostLinkWhereThatIsLonger) {
  Instance in = three_layers(PipelineSchedule::one_f_one_b);
  in.cost[0][0].host_forward = 100, in.cost[2][0].host_backward = 100, in.cost[0][0].host_backward = 40;
  PipelineTimes t = stage_times(in, kTwoAndOne);
  EXPECT_EQ(t.forward, (TimesOfStages{100, 12}));
  EXPECT_EQ(t.backward, (TimesOfStages{70, 100 - 5}));  // one operation takes backward + weight
  in.schedule = PipelineSchedule::zb_h2;
  t = stage_times(in, kTwoAndOne);
  EXPECT_EQ(t.backward, (TimesOfStages{70, 100}));
}

TEST(StageModel, AddsUpTheChunksOfADevice) {
  Instance in = three_layers(PipelineSchedule::zb_v);
  in.chunks_per_stage = 2;
  in.cost.push_back(in.cost[0]);
  in.within.push_back({{1, 1}}), in.across.push_back({{23, 29}});
  const PipelineTimes t = stage_times(in, {{0, 1, 2, 3}, {0, 0, 0, 0}});
  EXPECT_EQ(t.begin, (TimesOfStages{8, 8}));
  EXPECT_EQ(t.send_forward, (TimesOfStages{200, 17, 23}));
  EXPECT_EQ(t.tail,
            (TimesOfStages{30 - 5 + 30 + 12, 30 - 5 + 50 + 12}));  // last virtual stage first: 3 then 0, 2 then 1
}

TEST(StageModel, AddsUpBytesAndTheirPeak) {
  const Instance in = three_layers(PipelineSchedule::one_f_one_b);
  const AssignmentBytes b = stage_bytes(in, kTwoAndOne);
  EXPECT_EQ(b.persistent, (std::vector<TierBytes>{{2000, 100, 14}, {1000, 50, 7}}));
  EXPECT_EQ(b.stages[0].held, (TierBytes{200, 6, 0}));
  EXPECT_EQ(b.stages[0].transient, 90);
  const PipelineOrder order = pipeline_order(shape_of(in), stage_times(in, kTwoAndOne));
  // Two micro-batches are under way on the first stage, one on the last.
  EXPECT_EQ(peak_bytes(shape_of(in), order, b),
            (std::vector<TierBytes>{{2000 + 2 * 200 + 90, 100 + 2 * 6, 14}, {1000 + 100 + 40, 50 + 3, 7}}));
}

TEST(StageModel, RefusesWhatIsNoAssignmentOfTheInstance) {
  const Instance in = three_layers(PipelineSchedule::one_f_one_b);
  const auto refused = [&](const Assignment& a) {
    try {
      stage_times(in, a);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("taken");
  };
  EXPECT_NE(refused({{0, 0}, {0, 0}}).find("expected 3"), std::string::npos);
  EXPECT_NE(refused({{0, 1, 0}, {0, 0, 0}}).find("stages follow one another"), std::string::npos);
  EXPECT_NE(refused({{0, 0, 0}, {0, 0, 0}}).find("1 stages, expected 2"), std::string::npos);
  EXPECT_NE(refused({{0, 0, 1}, {0, 1, 0}}).find("has strategy 1"), std::string::npos);
}

}  // namespace
}  // namespace tern
