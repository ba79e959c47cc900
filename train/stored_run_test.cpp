// --states disk: the run, its checkpoints and its model are those of states in memory, in less of it.
#include "train/stored_run.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "base/fault_io.h"
#include "base/rng.h"
#include "base/system.h"
#include "train/disk_fit.h"
#include "train/fit.h"
#include "train/nearest_fits.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

TrainSettings stored_settings(const RunInputs& inputs, DType dtype, bool on_disk) {
  TrainSettings s = settings_of(inputs, dtype);
  s.sum_order.groups = 1, s.micro_batch = s.batch;
  s.states_on_disk = on_disk;
  if (on_disk) s.states_directory = inputs.path;
  return s;
}

// Models and both kinds of update; stopped twice, each part with its states elsewhere.
TEST(TrainStored, GivesTheRunOfStatesInMemoryAndEitherGoesOnFromTheOther) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const bool tied : {false, true})
      for (const bool early : {false, true}) {
        SCOPED_TRACE(std::string(name_of(dtype)) + (tied ? " tied" : "") + (early ? " early" : ""));
        const RunInputs inputs(tied);
        const auto run = [&](Io& io, bool on_disk, int64_t steps) {
          TrainSettings s = stored_settings(inputs, dtype, on_disk);
          s.update_in_backward = early;
          if (early) s.optimizer.clip = 0;
          std::atomic<bool> stop{false};
          TrainHooks hooks;
          hooks.step = [&](const StepReport& r) { stop = r.step == steps; };
          const TrainResult r = train_on(s, 1, io, hooks, stop);
          EXPECT_EQ(r.last_step, steps);
          EXPECT_EQ(r.byte_mismatches, 0);
          EXPECT_LE(r.counted_peak_bytes, r.predicted.tensors());
          return r;
        };
        MemoryIo memory, disk, mixed;
        const TrainResult want = run(memory, false, 6), got = run(disk, true, 6);
        EXPECT_EQ(bits_of(got, disk), bits_of(want, memory));
        EXPECT_EQ(got.loss, want.loss);
        EXPECT_EQ(got.predicted.staging, 0);
        EXPECT_FALSE(want.stored);
        ASSERT_TRUE(got.stored);
        const auto blocks = [&](int64_t bytes) { return bytes >= 6 * got.stored->state_bytes; };
        EXPECT_TRUE(blocks(got.stored->read_bytes) && blocks(got.stored->written_bytes));
        run(mixed, true, 2), run(mixed, false, 3), run(mixed, true, 4);
        const TrainResult last = run(mixed, true, 6);
        EXPECT_EQ(last.first_step, 4);
        EXPECT_EQ(bits_of(last, mixed), bits_of(want, memory));
      }
}

// The process ends at an operation of its disk drawn by the seed: the file of states is gone, the same command goes on from the checkpoint.
TEST(TrainStored, WhatGoesOnAfterAKillAtAWriteHasTheSameBits) {
  constexpr uint64_t kSeed = 20261126;
  const RunInputs inputs(true);
  const TrainSettings s = stored_settings(inputs, DType::bf16, true);
  MemoryIo whole;
  FaultIo counter(whole);
  const std::string want = bits_of(train_on(s, 1, counter), whole);
  const int64_t operations = counter.num_operations();
  constexpr int kKills = 8;
  const auto part = static_cast<uint64_t>((operations - 1) / kKills);  // the last removes a lock
  ASSERT_GT(part, 0u);
  int resumed = 0;
  for (int i = 0; i < kKills; ++i) {  // one from each part of the run
    const auto drawn = random_u64({kSeed, 1}, static_cast<uint64_t>(i)) % part;
    const auto at = static_cast<int64_t>(drawn + static_cast<uint64_t>(i) * part);
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    EXPECT_THROW(train_on(s, 1, faulty), SimulatedKill) << at << " of " << operations;
    const auto after = disk.state_after_crash(kSeed + static_cast<uint64_t>(i));
    const TrainResult r = train_on(s, 1, *after);
    resumed += r.first_step > 0;
    EXPECT_TRUE(bits_of(r, *after) == want) << "killed before operation " << at << " of " << operations;
  }
  EXPECT_GT(resumed, 1);
}

TEST(TrainStored, CountsWhatIsPredicted) {
  const RunInputs inputs(false);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    MemoryIo io;
    TrainSettings s = stored_settings(inputs, dtype, true);
    s.valid_data = "";
    const TrainResult r = train_on(s, 1, io);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
  }
}

// A model of 12 bytes of states for 2 of weights: what --memory refuses in memory fits with states in a file, and the refusal says so.
TEST(TrainStored, ARefusalNamesIt) {
  const RunInputs inputs(false);
  TrainSettings s = stored_settings(inputs, DType::bf16, false);
  const TrainInputs in = load_inputs(s);
  ModelSpec spec = in.spec;
  const auto fit = [&](const TrainSettings& asked) { return predict_memory(spec, asked, 0); };
  TrainSettings stored = s;
  stored.states_on_disk = true;
  for (Unit& unit : spec.units)
    if (auto* mlp = std::get_if<MlpSpec>(&unit.spec)) mlp->hidden = 1 << 18;
  const int64_t states = fit(s).optimizer, passage = fit(stored).optimizer;
  EXPECT_LT(8 * passage, states);
  const int64_t budget = fit(stored).total();
  try {
    require_fit(spec, s, fit(s), 0, budget, "allowed by --memory");
    FAIL() << "it fits";
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("or --states disk"), std::string::npos) << e.what(); }
  EXPECT_EQ(predict_disk(spec, s, real_io()).checkpoint, predict_disk(spec, stored, real_io()).checkpoint);
  EXPECT_GE(predict_disk(spec, stored, real_io()).states, states);
}

TEST(TrainStored, WhatCannotBeIsRefusedByName) {
  const RunInputs inputs(false);
  const auto refusal = [&](const std::function<void(TrainSettings&)>& change) {
    TrainSettings s = stored_settings(inputs, DType::f32, true);
    change(s);
    try {
      check_stored_states(s);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal([](TrainSettings& s) { s.states_directory.clear(); }), "");
  EXPECT_NE(refusal([](TrainSettings& s) { s.ranks = 2; }).find("--ranks 2"), std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.optimizer = update_config(UpdateRule::lamb); }).find("lamb"),
            std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.adapter.emplace(); }).find("adapter"), std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.states_on_disk = false; }).find("--states-dir"), std::string::npos);
  if (!std::filesystem::exists("/dev/shm") || read_disk_facts("/dev/shm").file_system != "tmpfs") return;
  const std::string in_memory = refusal([](TrainSettings& s) { s.states_directory = "/dev/shm"; });
  EXPECT_NE(in_memory.find("/dev/shm: its files lie in memory (tmpfs); give --states-dir"), std::string::npos)
      << in_memory;
}

// A disk without room is told before the first step; one that is full later, at the step that finds it.
TEST(TrainStored, AFolderThatIsNotThereIsToldByName) {
  const RunInputs inputs(false);
  TrainSettings s = stored_settings(inputs, DType::f32, true);
  s.states_directory = inputs.path + "/none";
  MemoryIo io;
  try {
    train_on(s, 1, io);
    FAIL() << "it ran";
  } catch (const Error& e) { EXPECT_NE(std::string(e.what()).find("/none"), std::string::npos) << e.what(); }
}

}  // namespace
}  // namespace tern
