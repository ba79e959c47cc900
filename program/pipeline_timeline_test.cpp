#include "program/pipeline_timeline.h"

#include <gtest/gtest.h>

#include <random>

#include "program/pipeline_run.h"

namespace tern {
namespace {

// The order's own operations, one after another on each device, and the step that run_pipeline gives.
TEST(PipelineTimeline, HasEveryOperationOfTheOrderAndEndsWithTheStep) {
  std::mt19937_64 random(7);
  for (const PipelineSchedule schedule : kPipelineSchedules) {
    const bool two = least_chunks(schedule) == 2;
    const PipelineShape shape{schedule, 3, two ? 2 : 1, 9};
    const auto stages = static_cast<size_t>(shape.num_virtual_stages());
    PipelineTimes t;
    const auto fill = [&](std::vector<int64_t>& v, size_t n) {
      for (size_t i = 0; i < n; ++i) v.push_back(static_cast<int64_t>(1 + random() % 1000));
    };
    fill(t.forward, stages), fill(t.backward, stages), fill(t.weight, stages);
    fill(t.send_forward, stages - 1), fill(t.send_backward, stages - 1), fill(t.begin, 3), fill(t.tail, 3);
    const PipelineOrder order = pipeline_order(shape, t);
    const PipelineRun run = run_pipeline(shape, order, t);
    const auto timeline = pipeline_timeline(shape, t);
    int64_t last = 0;
    ASSERT_EQ(timeline.size(), 3u);
    for (size_t d = 0; d < 3; ++d) {
      ASSERT_EQ(timeline[d].size(), order[d].size());
      int64_t now = t.begin[d], busy = 0;
      for (size_t i = 0; i < order[d].size(); ++i) {
        EXPECT_EQ(timeline[d][i].op, order[d][i]) << name_of(schedule);
        EXPECT_GE(timeline[d][i].begin, now) << name_of(schedule);
        now = timeline[d][i].end;
        busy += timeline[d][i].end - timeline[d][i].begin;
      }
      EXPECT_EQ(busy, run.busy[d]);
      EXPECT_EQ(now, run.end[d]);
      last = std::max(last, now + t.tail[d]);
    }
    EXPECT_EQ(last, run.makespan);
  }
}

}  // namespace
}  // namespace tern
