#include "apps/beside_plan.h"

#include <gtest/gtest.h>

#include <string>

namespace tern {
namespace {

TEST(BesidePlan, AShareStandsWhereBothCanBeCompared) {
  Plan p;
  p.hardware = "here";
  p.step_ps = 10'000'000'000;  // 10 ms
  p.program = PlannedProgram{.checksum = 7, .step_ps = p.step_ps};
  TrainResult r;
  r.program_checksum = 7, r.last_step = 60;
  EXPECT_EQ(beside_plan(p, r), "") << "no step after the first";
  r.steady_step_seconds = 0.011;
  EXPECT_EQ(beside_plan(p, r),
            "; a step took 11 ms on average from the second on, the plan for here says 10 ms (+10.0 %)");
  r.steady_step_seconds = 0.048;
  EXPECT_EQ(beside_plan(p, r),
            "; a step took 48 ms on average from the second on, 4.8 times the 10 ms of the plan for here; measure "
            "this machine anew (`tern profile`) and plan again");
  r.steady_step_seconds = 0.002;
  EXPECT_NE(beside_plan(p, r).find(", 0.20 times the 10 ms of the plan for here;"), std::string::npos)
      << beside_plan(p, r);
  r.first_step = 57;
  EXPECT_NE(beside_plan(p, r).find("says 10 ms (too few steps to compare)"), std::string::npos) << beside_plan(p, r);
  r.first_step = 0, r.program_checksum = 8;
  EXPECT_EQ(beside_plan(p, r),
            "; a step took 2 ms on average from the second on; the plan's 10 ms (for here) are of other steps than "
            "these: its "
            "Program has another checksum");
}

}  // namespace
}  // namespace tern
