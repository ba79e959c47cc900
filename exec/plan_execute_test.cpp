// What `tern plan` decides for one device is what the executor runs; what it does not run it refuses by name.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "exec/executor_testing.h"
#include "program/lower.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

const Case kCase{"plan", DType::f32, Multiply::fast, true, 32, 9, {2, 2, 2}};

// Layers: embedding, two blocks, head.
Plan plan_of(const ModelSpec& spec, Recompute first, Recompute second) {
  Plan p{.parameters = num_parameters(spec), .job = {.batch = 6, .seq = 9, .dtype = DType::f32}};
  p.choice = {.micro_batch = 2, .num_micro = 3};
  p.layers = {{.first = 0, .count = 2, .strategy = {.recompute = first}},
              {.first = 2, .count = 2, .strategy = {.recompute = second}}};
  return p;
}

TEST(ExecutePlan, RunsEachLayersOwnRecomputationWithEqualBytesAndBits) {
  std::vector<std::byte> want;
  constexpr std::pair<Recompute, Recompute> modes[] = {
      {Recompute::none, Recompute::none}, {Recompute::full, Recompute::none}, {Recompute::attention, Recompute::full}};
  for (const auto& [first, second] : modes) {
    Bench run(kCase);
    const Plan plan = plan_of(run.spec, first, second);
    const Program p = lower(run.spec, plan, 0, {.scratch = scratch_bytes(kCase.multiply, kCase.dtype)});
    ASSERT_EQ(validate(p), std::vector<std::string>{});
    const ExecuteResult result = run.execute_with(p, kCase.multiply, 0.125);
    EXPECT_EQ(describe_mismatches(result), "");
    const auto remade = std::count_if(result.trace.begin(), result.trace.end(),
                                      [](const TraceEvent& e) { return e.op == Opcode::recompute; });
    EXPECT_EQ(remade, 3 * (static_cast<int>(first) + static_cast<int>(second)));
    const std::vector<std::byte> got = bits(run.spec, run.weights);
    if (want.empty()) want = got;
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), want.size()), 0);
  }
}

TEST(ExecutePlan, RefusesByNameWhatItDoesNotRun) {
  Bench run(kCase);
  const auto refusal = [&](auto change) {
    Plan plan = plan_of(run.spec, Recompute::none, Recompute::none);
    change(plan);
    try {
      run.execute_with(lower(run.spec, plan, 0), kCase.multiply);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string("run");
  };
  EXPECT_NE(refusal([](Plan& p) { p.choice.num_stages = 2, p.layers[1].stage = 1; }).find("needs 2 devices"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& p) { p.choice.mesh.data = 4; }).find("needs 4 devices"), std::string::npos);
  EXPECT_NE(refusal([](Plan& p) {
              p.layers[1].strategy.states = Tier::host;
            }).find("keeps persistent(unit 3, micro -1, host) off the device"),
            std::string::npos);
  EXPECT_NE(refusal([](Plan& p) { p.layers[0].strategy.activations = Tier::host; }).find("has STORE unit 1 micro 0"),
            std::string::npos);
}

}  // namespace
}  // namespace tern
