// Updates within the backward: the bits of those after it, in the memory that the Program says.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "exec/executor_testing.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"

namespace tern {
namespace {

Placement placed(const Bench& run, Recompute recompute) {
  Placement p = placement_of(run.spec, run.costs, recompute, run.config);
  p.updates_in_backward = true;
  return p;
}
// Its gradients exist layer by layer alone.
struct EarlyBench : Bench {
  EarlyBench(const Case& c, const UpdateConfig& rule) : Bench(c, rule) {
    gradients = allocate_gradients(spec, c.dtype, arena, std::vector<bool>(spec.units.size(), true));
    update.emplace(make_update_pass(spec, state, config, weights, gradients));
    begin_step(*update, 1, [](int64_t) { return 1e-2; });
  }
};
std::vector<std::byte> all_bits(Bench& run) {
  std::vector<std::byte> all = bits(run.spec, run.weights);
  const auto add = [&](const Tensor& t) {
    if (t.empty()) return;
    const auto* begin = static_cast<const std::byte*>(t.data());
    all.insert(all.end(), begin, begin + t.bytes());
  };
  for (const Tensor& t : run.state.master) add(t);
  for (const auto& slot : run.state.slots)
    for (const Tensor& t : slot) add(t);
  return all;
}
std::vector<UpdateRule> rules_without_model_sums() {
  std::vector<UpdateRule> rules;
  for (const UpdateRule rule : kUpdateRules)
    if (row_of(rule).sums.over != UpdateSums::Over::model) rules.push_back(rule);
  return rules;
}

TEST(UpdateInBackward, GivesTheBitsOfAnUpdateAfterItInThePredictedBytes) {
  for (const Case& one : kCases) {
    Case c = one;
    c.micro = {one.micro[0]};
    const bool all_rules = c.name == std::string("llama_f32_fast") || c.name == std::string("gpt2_f64");
    for (const UpdateRule rule : all_rules ? rules_without_model_sums() : std::vector{UpdateRule::adamw}) {
      SCOPED_TRACE(std::string(c.name) + " " + std::string(name_of(rule)));
      UpdateConfig config = update_config(rule);
      config.clip = 0;
      Bench after(c, config);
      const ExecuteResult want =
          after.execute_with(training_program(after.spec, after.costs, Recompute::full, config), c.multiply);
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        EarlyBench early(c, config);
        const Program p = lower(early.spec, placed(early, recompute), 0);
        ASSERT_EQ(validate(p), std::vector<std::string>{});
        const int64_t before = early.arena.current_total();
        const ExecuteResult got = early.execute_with(p, c.multiply);
        EXPECT_EQ(describe_mismatches(got), "");
        EXPECT_EQ(got.bytes.peak_bytes, simulate(p).ranks[0].peak_bytes);
        EXPECT_EQ(early.arena.current_total(), before) << "gradients are still held";
        EXPECT_EQ(got.loss_sum, want.loss_sum);
        ASSERT_TRUE(got.update && want.update);
        EXPECT_EQ(got.update->gradient_norm, want.update->gradient_norm);
        EXPECT_TRUE(all_bits(early) == all_bits(after));
      }
    }
  }
}

// What lies on the device all the time is less by all gradients but a tied head's own.
TEST(UpdateInBackward, LeavesNoGradientResident) {
  for (const Case& one : kCases) {
    SCOPED_TRACE(one.name);
    Case c = one;
    c.micro = {one.micro[0]};
    UpdateConfig config = update_config(UpdateRule::adamw);
    config.clip = 0;
    const Bench run(c, config);
    const auto resident = [](const Program& p) {
      int64_t bytes = 0;
      for (const BufferBytes& b : p.resident[0]) bytes += b.bytes;
      return bytes;
    };
    Placement p = placed(run, Recompute::none);
    const int64_t early = resident(lower(run.spec, p, 0));
    p.updates_in_backward = false;
    int64_t elements = 0;
    for (const ParameterInfo& info : run.state.infos) elements += info.shape.count();
    EXPECT_EQ(resident(lower(run.spec, p, 0)) - early, elements * (c.dtype == DType::f64 ? 8 : 4));
  }
}

TEST(UpdateInBackward, RefusesAGradientThatIsNotFiniteByItsName) {
  Case c = kCases[1];
  c.micro = {2};
  UpdateConfig config = update_config(UpdateRule::adamw);
  config.clip = 0;
  EarlyBench run(c, config);
  const Program p = lower(run.spec, placed(run, Recompute::none), 0);
  const std::vector<Tensor*> weights = trained_tensors(run.spec, run.weights);
  for (size_t i = 0; i < weights.size(); ++i)
    if (run.state.infos[i].unit == 1) weights[i]->span<float>()[0] = std::numeric_limits<float>::quiet_NaN();
  try {
    run.execute_with(p, c.multiply);
    FAIL() << "taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::diverged);
    EXPECT_NE(std::string(e.what()).find("the last checkpoint stands"), std::string::npos) << e.what();
  }
}

TEST(UpdateInBackward, TheValidatorFindsAnUpdateThatComesTooEarly) {
  Case c = kCases[0];
  UpdateConfig config = update_config(UpdateRule::adamw);
  config.clip = 0;
  const Bench run(c, config);
  const Program sound = lower(run.spec, placed(run, Recompute::none), 0);
  const auto is = [](Opcode op, int unit) {
    return [=](const Instruction& i) { return i.op == op && i.unit == unit; };
  };
  {
    Program p = sound;  // before the gradient is whole
    const auto update = std::ranges::find_if(p.instructions, is(Opcode::update, 1));
    const auto weight = std::ranges::find_if(p.instructions, is(Opcode::backward_weight, 1));
    std::iter_swap(update, weight);
    EXPECT_NE(validate(p), std::vector<std::string>{});
  }
  {
    Program p = sound;  // reads no gradient of its own
    std::ranges::find_if(p.instructions, is(Opcode::update, 1))->reads.clear();
    EXPECT_NE(validate(p), std::vector<std::string>{});
  }
}

}  // namespace
}  // namespace tern
