// The choices next to the plan, against a search of each of them alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/outer/plan_model.h"
#include "planner/outer/twin_test.h"

namespace tern {
namespace {

// One step from a plan's axes, as a person would take it with --fix.
std::vector<PinnedAxes> steps_from(const PinnedAxes& plan, const std::vector<PipelineSchedule>& schedules) {
  std::vector<PinnedAxes> list;
  for (const bool doubled : {false, true}) {
    if (!doubled && *plan.micro_batch % 2) continue;
    list.push_back(plan);
    list.back().micro_batch = doubled ? *plan.micro_batch * 2 : *plan.micro_batch / 2;
  }
  for (const PipelineSchedule schedule : schedules) {
    if (schedule == plan.schedule || plan.stages == 1) continue;
    list.push_back(plan);
    list.back().schedule = schedule, list.back().chunks.reset();
  }
  using Axis = std::optional<int64_t> PinnedAxes::*;
  const std::vector<Axis> axes{&PinnedAxes::tensor, &PinnedAxes::context, &PinnedAxes::data, &PinnedAxes::stages};
  for (const Axis gives : axes)
    for (const Axis takes : axes) {
      if (gives == takes || *(plan.*gives) % 2) continue;
      list.push_back(plan);
      list.back().*gives = *(plan.*gives) / 2, list.back().*takes = *(plan.*takes) * 2;
      if (plan.stages == 1) list.back().schedule.reset();
    }
  if (*plan.context > 1) {
    list.push_back(plan);
    list.back().ulysses = !plan.ulysses.value_or(false);
  }
  std::erase_if(list, [](const PinnedAxes& p) { return *p.micro_batch > SearchSpace().max_micro_batch; });
  for (PinnedAxes& p : list) p.micro_batches.reset(), p.zero.reset(), p.recompute.reset();
  return list;
}

TEST(Rivals, EveryChoiceNextToThePlanThatIsCloseIsNamed) {
  int close = 0;
  for (const int64_t memory : {6 * kGB, 12 * kGB, 40 * kGB})
    for (const auto& [devices, batch] :
         {std::pair{1, 8}, {2, 4}, {2, 12}, {2, 64}, {4, 16}, {4, 32}, {8, 8}, {8, 64}, {8, 256}}) {
      const ModelSpec spec = small_model(3);
      const Cluster cluster = small_cluster(devices, memory);
      PlanRequest request{.model = "small", .job = {.batch = batch, .seq = 1024}};
      request.space.schedules = {PipelineSchedule::one_f_one_b, PipelineSchedule::gpipe, PipelineSchedule::zb_h1,
                                 PipelineSchedule::interleaved};
      request.space.max_chunks = 2;
      request.space.states = request.space.activations = {Tier::device};
      const PlanAnswer a = plan_model(spec, cluster, request);
      if (!a.found) continue;
      const double near = 1.05 * static_cast<double>(a.plan.step_ps);
      for (const PinnedAxes& pins : steps_from(axes_of(a.plan.choice, a.plan.layers), request.space.schedules)) {
        PlanRequest pinned = request;
        pinned.space = pin(request.space, pins);
        PlanAnswer alone;
        try {
          alone = plan_model(spec, cluster, pinned);
        } catch (const Error& e) {
          ASSERT_EQ(e.kind(), ErrorKind::usage) << e.what();  // no such choice
          continue;
        }
        if (!alone.found || static_cast<double>(alone.plan.step_ps) > near) continue;
        ++close;
        const std::string choice = to_string(alone.plan.choice);
        const bool named = std::any_of(a.plan.families.begin(), a.plan.families.end(), [&](const PlannedFamily& f) {
          return f.feature.starts_with("neighbour: ") && f.choice == choice && f.step_ps >= alone.plan.step_ps &&
                 static_cast<double>(f.step_ps) <= 1.002 * static_cast<double>(alone.plan.step_ps);
        });
        EXPECT_TRUE(named) << choice << ", " << alone.plan.step_ps << " beside " << a.plan.step_ps << " of "
                           << to_string(a.plan.choice);
      }
      std::map<std::string, int64_t> steps;
      for (const PlannedFamily& f : a.plan.families) {
        if (f.found) {
          const auto [at, first] = steps.try_emplace(f.choice, f.step_ps);
          EXPECT_EQ(at->second, f.step_ps) << "two times of one choice: " << f.choice;
          EXPECT_GE(f.step_ps, a.plan.step_ps);
        }
        if (!f.feature.starts_with("neighbour: ")) continue;
        EXPECT_TRUE(f.found && f.fits) << f.choice;
        EXPECT_GE(f.step_ps, f.bound_ps);
        EXPECT_NE(f.choice, to_string(a.plan.choice));
      }
    }
  EXPECT_GE(close, 8) << "the test compares little";
}

TEST(Rivals, ThatTheLargestMicroBatchWasTakenIsSaid) {
  const auto said = [](int64_t most, const char* pins) {
    PlanRequest request{.model = "small", .job = {.batch = 64, .seq = 1024}};
    request.space.states = request.space.activations = {Tier::device};
    request.space.max_micro_batch = most;
    request.space = pin(request.space, parse_pinned(pins));
    const PlanAnswer a = plan_model(small_model(3), small_cluster(1, 40 * kGB), request);
    EXPECT_TRUE(a.found);
    return std::any_of(a.plan.restrictions.begin(), a.plan.restrictions.end(),
                       [](const std::string& r) { return r.find("--max-micro-batch") != std::string::npos; });
  };
  EXPECT_TRUE(said(4, "tp=1"));
  EXPECT_FALSE(said(64, "tp=1")) << "all sequences in one";
  EXPECT_FALSE(said(4, "micro-batch=4")) << "it was given";
}

}  // namespace
}  // namespace tern
