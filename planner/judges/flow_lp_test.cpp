#include "planner/judges/flow_lp.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "planner/instance/brute_force_test.h"
#include "planner/instance/random_instance.h"
#ifdef TERN_CBC
#include <coin/Cbc_C_Interface.h>
#endif

namespace tern {
namespace {

#ifdef TERN_CBC
struct MipAnswer {
  bool feasible = false;
  double value = 0;
};

MipAnswer solve(const std::string& lp) {
  const auto path = std::filesystem::temp_directory_path() / ("tern_flow_" + std::to_string(getpid()) + ".lp");
  std::ofstream(path) << lp;
  Cbc_Model* model = Cbc_newModel();
  Cbc_setLogLevel(model, 0);
  EXPECT_EQ(Cbc_readLp(model, path.c_str()), 0);
  Cbc_setParameter(model, "logLevel", "0");
  Cbc_setParameter(model, "ratioGap", "0");
  Cbc_setParameter(model, "allowableGap", "0");
  Cbc_solve(model);
  MipAnswer answer;
  answer.feasible = Cbc_isProvenOptimal(model) && !Cbc_isProvenInfeasible(model);
  answer.value = Cbc_getObjValue(model);
  Cbc_deleteModel(model);
  std::filesystem::remove(path);
  return answer;
}
#endif

// The search, brute force and the solver on the same instances.
TEST(FlowProgrammeSlow, SearchUnderTheSimpleObjectiveEqualsTheSolver) {
#ifndef TERN_CBC
  GTEST_SKIP() << "built without CBC (coinor-libcbc-dev): the mixed-integer programme was not solved";
#else
  int feasible = 0, infeasible = 0;
  for (int seed = 0; seed < 340; ++seed) {
    RandomInstance r{.layers = 3 + seed % 3,
                     .strategies = 2 + seed / 3 % 2,
                     .stages = 1 + seed / 6 % 3,
                     .micro = 1 + seed % 6,
                     .schedule = seed % 2 == 0 ? PipelineSchedule::gpipe : PipelineSchedule::one_f_one_b,
                     .entries = seed % 5 == 0,
                     .transients = seed % 4 == 0,
                     .host_link = seed % 7 == 0,
                     .tiers = seed % 3 == 0,
                     .types = seed % 11 < 3 ? 2 : 1,
                     .link_classes = seed % 11 < 3 ? 3 : 1,
                     .memory = seed % 9 == 0 ? -0.4 : 0.4 + 0.1 * (seed % 6)};
    const Instance in = random_instance(r, static_cast<uint64_t>(seed));
    const SearchResult got = search(in, {.objective = Objective::simple});
    const BruteForce want = brute_force(in, Objective::simple);
    const MipAnswer mip = solve(flow_lp(in));
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ASSERT_EQ(got.found, want.found);
    ASSERT_EQ(got.found, mip.feasible);
    if (!got.found) {
      ++infeasible;
      continue;
    }
    ++feasible;
    EXPECT_EQ(got.value_ps, want.value);
    EXPECT_EQ(got.bound_ps, want.value);
    EXPECT_EQ(std::llround(mip.value),
              got.value_ps);  // integers of four digits: the solver's tolerance is far below one
  }
  EXPECT_GT(feasible, 200);
  EXPECT_GT(infeasible, 20);
#endif
}

TEST(FlowProgramme, RefusesWhatTheEncodingDoesNotKnow) {
  const Instance in =
      random_instance({.layers = 4, .stages = 2, .chunks = 2, .schedule = PipelineSchedule::interleaved}, 1);
  EXPECT_THROW(flow_lp(in), Error);
}

TEST(SimpleObjective, SearchEqualsBruteForce) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const Instance in = random_instance({.layers = 3 + static_cast<int>(seed % 4),
                                         .strategies = 3,
                                         .stages = 1 + static_cast<int>(seed % 3),
                                         .micro = 1 + static_cast<int>(seed % 8),
                                         .link = seed % 2 == 0 ? 20 : 500,
                                         .memory = 0.4},
                                        seed);
    const BruteForce want = brute_force(in, Objective::simple);
    const SearchResult got = search(in, {.objective = Objective::simple});
    ASSERT_EQ(got.found, want.found);
    if (!want.found) continue;
    EXPECT_EQ(got.value_ps, want.value) << "seed " << seed;
    EXPECT_EQ(got.model_gap(), 0);
  }
}

}  // namespace
}  // namespace tern
