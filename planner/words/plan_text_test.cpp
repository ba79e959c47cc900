#include "planner/words/plan_text.h"

#include <gtest/gtest.h>

#include "hardware/machines.h"

namespace tern {
namespace {

// "90 % of 2 runs" is a frequency that does not exist.
TEST(PlanText, AnErrorBarSaysHowManyRunsItRestsOn) {
  PlannedError e{.software = "X", .rows = 63, .low_ps = 2'000'000'000'000, .high_ps = 3'000'000'000'000};
  e.median = 0.026;
  EXPECT_EQ(error_bar_words(e), "2.000 s to 3.000 s in 90 % of 63 runs of X that were left out; half within 2.60 %");
  e.rows = 20;
  EXPECT_NE(error_bar_words(e).find("90 % of 20 runs"), std::string::npos);
  e.rows = 19;
  EXPECT_EQ(error_bar_words(e),
            "2.000 s to 3.000 s, where all 19 runs of X that were left out lay; half within 2.60 %");
  e.rows = 1;
  EXPECT_EQ(error_bar_words(e), "2.000 s to 3.000 s, where the only run of X that was left out lay");
}

TEST(PlanText, SharedCoresHaveATimeOfTheirOwn) {
  PlanAnswer a{.found = true};
  a.plan.step_ps = 3'000'000'000'000, a.plan.ranks.resize(1), a.memory.resize(1);
  a.plan.program = PlannedProgram{.instructions = 12, .step_ps = 2'000'000'000'000};
  Cluster c = find_cluster("a100-80g");
  const std::string words =
      "2.000 s if a device that waits leaves its core to the others (1.5 of 8 can compute at once)";
  EXPECT_EQ(plan_text(a, c, {.details = false}).find(words), std::string::npos);
  c.nodes[static_cast<size_t>(c.groups[0].node)].devices_at_once = 1.5;
  EXPECT_NE(plan_text(a, c, {.details = false}).find(words), std::string::npos) << plan_text(a, c, {.details = false});
  const std::string all = plan_text(a, c, {.details = true});
  EXPECT_NE(all.find("its 12 instructions, one by one, take the second time of the step above"), std::string::npos)
      << all;
  EXPECT_EQ(all.find("2.000 s", all.find("2.000 s") + 1), std::string::npos) << "the same time is told once: " << all;
}

TEST(PlanText, ExchangesBesideProductsAreSaidWhereTheyWereAskedFor) {
  PlanAnswer a{.found = true};
  a.plan.step_ps = 3'000'000'000'000, a.plan.ranks.resize(1);
  Cluster c = find_cluster("a100-80g");
  const auto says = [&](std::string_view words) {
    return plan_text(a, c, {.details = false}).find(words) != std::string::npos;
  };
  EXPECT_FALSE(says("--tp-comm-overlap"));
  a.plan.job.tensor_overlap = true;
  EXPECT_TRUE(says("no rows to exchange beside products (--tp-comm-overlap): tp 1"));
  a.plan.choice.mesh.tensor = 2;
  EXPECT_TRUE(says("exchanges of rows pass beside products (--tp-comm-overlap)\n"));
  c.nodes[static_cast<size_t>(c.groups[0].node)].devices_at_once = 1.5;
  EXPECT_TRUE(says("priced as if behind them: devices share cores"));
}

}  // namespace
}  // namespace tern
