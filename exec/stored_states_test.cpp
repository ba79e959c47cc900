// Optimizer states in a file: the bits of a step with states in memory, in the bytes per tier that the Program says.
#include <gtest/gtest.h>

#include "base/bug.h"
#include "exec/executor_testing.h"
#include "model/allocate_weights.h"
#include "program/generate.h"
#include "program/validate.h"
#include "spec/recompute.h"
#include "store/scratch_testing.h"
#include "update/stored_states.h"

namespace tern {
namespace {

Placement on_disk(const Bench& run, Recompute recompute, bool early) {
  Placement p = placement_of(run.spec, run.costs, recompute, run.config);
  p.updates_in_backward = early;
  for (PlacedLayer& l : p.layers) l.strategy.states = Tier::disk;
  return p;
}

// Its masters and slots lie in a file.
struct StoredBench : Bench {
  std::unique_ptr<StoredStates> states;
  StoredBench(const Case& c, const UpdateConfig& rule, const Program& program, bool early) : Bench(c, rule) {
    if (early) gradients = allocate_gradients(spec, c.dtype, arena, std::vector<bool>(spec.units.size(), true));
    OptimizerState memory = std::move(state);
    state = stored_optimizer_state(spec, weights, config);
    StoredLayout layout = stored_layout(state.forms, config, c.dtype, kUpdateBlock);
    OpenedScratch file{std::make_unique<MemoryScratch>(layout.file_bytes, kStoredAlignment), ReadWay::direct, ""};
    states = std::make_unique<StoredStates>(std::move(file), std::move(layout), StoredPassage{kUpdateBlock}, arena);
    std::vector<size_t> order;
    for (const Instruction& i : program.instructions)
      for (size_t p = 0; i.op == Opcode::update && p < state.infos.size(); ++p)
        if (state.infos[p].unit == i.unit) order.push_back(p);
    for (const size_t p : order)
      if (states->field(p, kMasterField))
        states->write(
            p, kMasterField,
            {static_cast<const std::byte*>(memory.master[p].data()), static_cast<size_t>(memory.master[p].bytes())});
    states->begin(order);
    update.emplace(make_update_pass(spec, state, config, weights, gradients));
    update->weight_dtype = c.dtype;
    update->stored = states.get();
  }
};

TEST(StoredStatesStep, GivesTheBitsOfStatesInMemoryInThePredictedBytesOfEachTier) {
  for (const Case& one : kCases)
    for (const bool early : {false, true}) {
      Case c = one;
      if (c.adapters >= 0) continue;
      if (early) c.micro = {one.micro[0]};
      SCOPED_TRACE(std::string(c.name) + (early ? " early" : ""));
      UpdateConfig config = update_config(UpdateRule::adamw);
      if (early) config.clip = 0;
      Bench memory(c, config);
      const Program after = training_program(memory.spec, memory.costs, Recompute::full, config);
      const Program p = lower(memory.spec, on_disk(memory, Recompute::full, early), 0);
      ASSERT_EQ(validate(p), std::vector<std::string>{});
      StoredBench stored(c, config, p, early);
      EXPECT_EQ(simulate(p).peak[0][static_cast<size_t>(Tier::disk)], stored.states->layout().state_bytes);
      for (int64_t step = 1; step <= 2; ++step) {
        for (Bench* run : {&memory, static_cast<Bench*>(&stored)})
          begin_step(*run->update, step, [](int64_t) { return 1e-2; });
        const ExecuteResult want = memory.execute_with(after, c.multiply), got = stored.execute_with(p, c.multiply);
        EXPECT_EQ(describe_mismatches(got), "");
        EXPECT_EQ(got.bytes.peak_bytes, simulate(p).ranks[0].peak_bytes);
        EXPECT_EQ(got.loss_sum, want.loss_sum);
        EXPECT_TRUE(bits(stored.spec, stored.weights) == bits(memory.spec, memory.weights)) << "step " << step;
      }
      EXPECT_EQ(stored.states->counts().used_bytes, 2 * stored.states->layout().state_bytes);
    }
}

TEST(StoredStatesStep, ProgramAndStatesMustAgree) {
  const Case& c = kCases[0];
  const UpdateConfig config = update_config(UpdateRule::adamw);
  Bench memory(c, config);
  const Program p = lower(memory.spec, on_disk(memory, Recompute::none, false), 0);
  EXPECT_THROW(memory.execute_with(p, c.multiply), Bug);
  StoredBench stored(c, config, p, false);
  EXPECT_THROW(stored.execute_with(training_program(memory.spec, memory.costs, Recompute::none, config), c.multiply),
               Bug);
}

}  // namespace
}  // namespace tern
