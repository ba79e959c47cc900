// --gradients zeroth-order: the run from memory and from a file, stopped and resumed, in the bytes that were predicted.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "train/fit.h"
#include "train/ranks_testing.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

TrainSettings zeroth_settings(const RunInputs& inputs, DType dtype, bool on_disk) {
  TrainSettings s = settings_of(inputs, dtype);
  s.sum_order.groups = 1, s.micro_batch = 3;  // of a batch of 8: the last micro-batch is smaller
  s.perturbation = 1e-3;
  s.optimizer = update_config(UpdateRule::sgd, {{"momentum", 0}});
  s.optimizer.clip = 0;
  s.schedule.peak = 1e-4, s.schedule.minimum = 1e-5;
  s.states_on_disk = on_disk;
  if (on_disk) s.states_directory = inputs.path;
  return s;
}

TEST(TrainZeroth, GivesTheSameRunFromMemoryFromAFileAndAfterAStop) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const bool tied : {false, true}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + (tied ? " tied" : ""));
      const RunInputs inputs(tied);
      const auto run = [&](Io& io, bool on_disk, int64_t steps) {
        std::atomic<bool> stop{false};
        TrainHooks hooks;
        hooks.step = [&](const StepReport& r) { stop = r.step == steps; };
        const TrainResult r = train_on(zeroth_settings(inputs, dtype, on_disk), 1, io, hooks, stop);
        EXPECT_EQ(r.last_step, steps);
        EXPECT_EQ(r.byte_mismatches, 0);
        EXPECT_LE(r.counted_peak_bytes, r.predicted.tensors());
        return r;
      };
      MemoryIo memory, mixed;
      const TrainResult want = run(memory, false, 6);
      ASSERT_TRUE(want.evaluation && want.loss);
      if (dtype == DType::bf16) {
        run(mixed, false, 2);
        EXPECT_EQ(bits_of(run(mixed, false, 6), mixed), bits_of(want, memory));
        continue;
      }
      MemoryIo disk;
      const TrainResult got = run(disk, true, 6);
      EXPECT_EQ(bits_of(got, disk), bits_of(want, memory));
      EXPECT_EQ(got.loss, want.loss);
      EXPECT_EQ(got.evaluation->loss, want.evaluation->loss);
      EXPECT_LT(got.predicted.weights, want.predicted.weights) << "layers lie in the file alone";
      EXPECT_EQ(got.predicted.staging, 0);
      ASSERT_TRUE(got.stored);
      EXPECT_GE(got.stored->read_bytes, 6 * got.stored->state_bytes);
      run(mixed, true, 2), run(mixed, false, 3), run(mixed, true, 5);
      const TrainResult last = run(mixed, true, 6);
      EXPECT_EQ(last.first_step, 5);
      EXPECT_EQ(bits_of(last, mixed), bits_of(want, memory));
    }
}

TEST(TrainZeroth, KeepsNeitherGradientsNorActivations) {
  const RunInputs inputs(true, 6);
  TrainSettings s = zeroth_settings(inputs, DType::f32, false);
  MemoryIo first, second;
  const TrainResult zeroth = train_on(s, 1, first);
  s.perturbation.reset(), s.micro_batch = 8;
  const TrainResult backward = train_on(s, 1, second);
  EXPECT_LT(zeroth.predicted.gradients, backward.predicted.gradients);
  EXPECT_LT(zeroth.predicted.activations, backward.predicted.activations);
  EXPECT_EQ(zeroth.predicted.optimizer, 0);
}

// Rules that keep something take the slope times the direction as any gradient; rules with temporaries run in memory.
TEST(TrainZeroth, AnyRuleTakesTheSlope) {
  const RunInputs inputs(false);
  for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::adafactor, UpdateRule::lars})
    for (const bool on_disk : {false, true}) {
      if (on_disk && rule != UpdateRule::adamw) continue;
      SCOPED_TRACE(name_of(rule));
      TrainSettings s = zeroth_settings(inputs, DType::f32, on_disk);
      s.optimizer = update_config(rule);
      s.optimizer.clip = 0;
      MemoryIo io;
      const TrainResult r = train_on(s, 1, io);
      EXPECT_EQ(r.byte_mismatches, 0);
      EXPECT_LE(r.counted_peak_bytes, r.predicted.tensors());
      EXPECT_TRUE(std::isfinite(r.loss.value_or(NAN)));
    }
}

}  // namespace
}  // namespace tern
