// What is said of a plan: points of a row of questions, marked only where all of them were searched to their end.
#include "planner/words/story.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "hardware/machines.h"
#include "planner/words/planned_points.h"
#include "spec/presets.h"

namespace tern {
namespace {

class PlanStoryWords : public testing::Test {
 protected:
  PlanStoryWords() {
    PlanRequest r{.model = "gpt2", .job = {.batch = 8, .seq = 512}};
    r.space = pin(r.space, parse_pinned("tp=1,cp=1,dp=8,pp=1,micro-batch=1,zero=0,recompute=none,layers=even"));
    answer_ = plan_model(spec_, cluster_, r);
    story_.nodes = {{.asked = 1, .found = true, .devices = 8, .step_ps = 20, .tokens_per_second = 1e3},
                    {.asked = 2, .found = true, .devices = 16, .step_ps = 10, .tokens_per_second = 2e3},
                    {.asked = 4}};
    for (PlannedPoint& p : story_.nodes) p.price_per_hour = static_cast<double>(p.devices), p.front = p.found;
  }
  std::string words() const { return story_words(spec_, cluster_, answer_.plan, story_); }
  Json json() const { return story_json(spec_, cluster_, answer_.plan, story_); }
  bool says(std::string_view part) const { return words().find(part) != std::string::npos; }

  const ModelSpec spec_ = *preset_model("gpt2");
  const Cluster cluster_ = find_cluster("h100");
  PlanAnswer answer_;
  PlanStory story_;
};

TEST_F(PlanStoryWords, OfARowSearchedToItsEndTheBestAreMarked) {
  ASSERT_TRUE(answer_.found);
  EXPECT_TRUE(says("(fewest devices, lowest cost)") && says("(fastest)")) << words();
  EXPECT_TRUE(says("4 nothing fits, or no choice is legal")) << words();
  EXPECT_FALSE(says("searched to their end")) << words();
  EXPECT_EQ(json()["node_counts"][0]["front"], true);
}

TEST_F(PlanStoryWords, ThePeakOfASmallMachineIsNotRoundedToNothing) {
  ASSERT_TRUE(answer_.found);
  const auto details = [&](double peak) {
    Cluster small = cluster_;
    for (DeviceType& d : small.devices)
      for (auto& [dtype, rate] : d.peak) rate = peak;
    return story_words(spec_, small, answer_.plan, story_, true);
  };
  for (const auto& [peak, words] : {std::pair{12.5e12, " ÷ 100 TFLOP/s of 8 devices"},
                                    {153.25e9, " ÷ 1,226 GFLOP/s of 8 devices"},
                                    {1.25e9, " ÷ 10 GFLOP/s of 8 devices"}})
    EXPECT_NE(details(peak).find(words), std::string::npos) << details(peak);
}

TEST_F(PlanStoryWords, OfARowThatWasCutNothingIsMarkedAndItIsSaid) {
  story_.nodes[1].cut = true;
  story_.nodes[2].searched = false, story_.nodes[2].cut = true;
  for (const char* mark : {"fewest devices", "lowest cost", "fastest)"}) EXPECT_FALSE(says(mark)) << words();
  EXPECT_TRUE(says("(search cut: there may be a better one)")) << words();
  EXPECT_TRUE(says("4 not searched: stopped before")) << words();
  EXPECT_TRUE(says("1 of 3 were searched to their end: which is best is not known, so none is marked")) << words();
  EXPECT_TRUE(json()["node_counts"][0]["front"].is_null());
  EXPECT_EQ(json()["node_counts"][2]["searched"], false);
  story_.nodes[2].searched = true;
  EXPECT_TRUE(says("4 no plan found before its search was cut")) << words();
  story_.shadow = {{.what = "more", .step_ps = answer_.plan.step_ps, .choice = "x", .cut = true}};
  EXPECT_TRUE(says("more: nothing found that is faster (search cut: it may be worth more)")) << words();
}

}  // namespace
}  // namespace tern
