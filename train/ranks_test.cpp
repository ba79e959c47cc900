// Training on ranks, threads of one process: the bits of one rank under the same order of sums, through checkpoints, stops and
// other numbers of ranks. ./test runs this under ThreadSanitizer.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/fault_io.h"
#include "base/rng.h"
#include "base/wide_type.h"
#include "comm/decorators.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "train/inputs.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

void expect_bits_of_one(TrainSettings s, const std::vector<int>& numbers, int zero = 0) {
  s.zero = zero;
  std::string want;
  std::optional<TrainResult> one;
  for (const int ranks : numbers) {
    SCOPED_TRACE(fmt::format("{} ranks, {}, {}", ranks, name_of(s.dtype), name_of(s.optimizer.rule)));
    MemoryIo io;
    const TrainResult r = train_on(s, ranks, io);
    EXPECT_EQ(r.end, TrainEnd::finished);
    EXPECT_EQ(r.byte_mismatches, 0);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
    // Sums of all gradients in each step, and what is agreed on beside them.
    const int64_t sums = r.last_step * 2 * (ranks - 1) * size_of(wide_type(s.dtype)) * r.num_parameters;
    if (zero == 0) EXPECT_GE(r.sent_bytes, sums);
    if (zero == 0) EXPECT_LE(r.sent_bytes, sums + sums / 4 + (ranks - 1) * (int64_t{64} << 10));
    ASSERT_TRUE(r.evaluation && r.loss);
    if (!one) one = r, want = bits_of(r, io);
    EXPECT_TRUE(bits_of(r, io) == want);
    EXPECT_EQ(*r.loss, *one->loss);
    EXPECT_EQ(r.evaluation->loss, one->evaluation->loss);
    EXPECT_EQ(r.predicted.weights, ranks * one->predicted.weights);
    EXPECT_EQ(r.predicted.optimizer, (zero >= 1 ? 1 : ranks) * one->predicted.optimizer);
  }
}
void expect_bits_of_one(DType dtype, bool tied) {
  const RunInputs inputs(tied);
  expect_bits_of_one(settings_of(inputs, dtype), {1, 2, 4});
}

TEST(TrainRanks, AnyNumberOfThemLeavesTheBitsOfOne) {
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16}) expect_bits_of_one(dtype, tied);
}

TEST(TrainRanks, WithEveryUpdateRule) {
  const RunInputs inputs(true);
  for (const UpdateRule rule : kUpdateRules) {
    TrainSettings s = settings_of(inputs, DType::f32);
    s.optimizer = update_config(rule);
    s.schedule.total_steps = 3;
    expect_bits_of_one(s, {1, 2});
  }
}

// Shared out: the same bits with every rule, checkpoints, evaluations and exported models among them.
TEST(TrainRanks, SharedStateLeavesTheBitsOfOne) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied);
    for (const DType dtype : {DType::f32, DType::bf16}) expect_bits_of_one(settings_of(inputs, dtype), {1, 2, 4}, 1);
    for (const UpdateRule rule : kUpdateRules) {
      TrainSettings s = settings_of(inputs, tied ? DType::bf16 : DType::f32);
      s.optimizer = update_config(rule);
      s.schedule.total_steps = 3;
      expect_bits_of_one(s, {1, 4}, 1);
    }
  }
}

// Gradients too. With one micro-batch to a rank the order of sums is that of a copy on each; with several it is its own, which a
// stopped run that goes on keeps.
TEST(TrainRanks, SharedGradientsLeaveTheBitsOfOneAndGoOn) {
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const RunInputs inputs(tied);
      TrainSettings s = settings_of(inputs, dtype);
      s.micro_batch = 2;
      MemoryIo copies, shared, several, stopped;
      const std::string want = bits_of(train_on(s, 4, copies), copies);
      s.zero = 2;
      const auto run = [&](MemoryIo& io, const TrainHooks& hooks = {}, const std::atomic<bool>& stop = kNeverStops) {
        const TrainResult r = train_on(s, static_cast<int>(s.sum_order.groups), io, hooks, stop);
        EXPECT_EQ(r.byte_mismatches, 0);
        EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
        return bits_of(r, io);
      };
      EXPECT_TRUE(run(shared) == want);
      s.sum_order.groups = 2;
      const std::string of_two = run(several);
      std::atomic<bool> stop = false;
      train_on(s, 2, stopped, {.step = [&](const StepReport& r) { stop = r.step == 3; }}, stop);
      EXPECT_TRUE(run(stopped) == of_two);
    }
}

// Weights too: the bits of shared gradients, the weights kept once by all together, and any mesh goes on from any other.
TEST(TrainRanks, SharedWeightsLeaveTheBitsOfSharedGradients) {
  for (const bool tied : {false, true})
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const RunInputs inputs(tied);
      TrainSettings s = settings_of(inputs, dtype);
      MemoryIo gradients, weights, one;
      s.zero = 2, s.sum_order.groups = 2;
      const std::string want = bits_of(train_on(s, 2, gradients), gradients);
      s.zero = 3;
      const TrainResult r = train_on(s, 2, weights);
      EXPECT_EQ(r.byte_mismatches, 0);
      EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
      EXPECT_EQ(r.predicted.weights, train_on(s, 1, one).predicted.weights);
      EXPECT_TRUE(bits_of(r, weights) == want) << tied << name_of(dtype);
    }
}
TEST(TrainRanks, SharedWeightsGoOnUnderAnyMeshAndTheOtherWayRound) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::bf16);
  s.micro_batch = 2;  // one to each of four ranks: the order of sums is that of copies
  MemoryIo whole;
  const std::string want = bits_of(train_on(s, 1, whole), whole);
  const std::pair<int, int> meshes[] = {{0, 1}, {0, 4}, {1, 2}, {2, 4}, {3, 4}};  // zero, ranks
  for (const auto& before : meshes)
    for (const auto& after : meshes) {
      if (before.first != 3 && after.first != 3) continue;
      SCOPED_TRACE(
          fmt::format("zero {} on {}, then zero {} on {}", before.first, before.second, after.first, after.second));
      MemoryIo io;
      std::atomic<bool> stop = false;
      s.zero = before.first;
      train_on(s, before.second, io, {.step = [&](const StepReport& r) { stop = stop || r.step == 3; }}, stop);
      s.zero = after.first;
      const TrainResult r = train_on(s, after.second, io);
      EXPECT_GE(r.first_step, 3);
      EXPECT_EQ(r.byte_mismatches, 0);
      EXPECT_TRUE(bits_of(r, io) == want);
    }
}
// A model's files are read unit by unit.
TEST(TrainRanks, SharedWeightsBeginWithAModelsFiles) {
  const RunInputs inputs(true);
  for (const DType dtype : {DType::f32, DType::bf16}) {
    TrainSettings s = settings_of(inputs, dtype);
    const TrainInputs in = load_inputs(s);
    Arena arena;
    ModelWeights weights = allocate_weights(in.spec, DType::f32, MemoryClass::weights, arena);
    initialize_weights(in.spec, weights, 17);
    s.model = inputs.path + "/" + std::string(name_of(dtype)), s.from_scratch = false;
    save_model(in.spec, in.config, weights, DType::f32, s.model, real_io());
    s.sum_order.groups = 2, s.zero = 2;
    MemoryIo gradients, shared;
    const std::string want = bits_of(train_on(s, 2, gradients), gradients);
    s.zero = 3;
    const TrainResult r = train_on(s, 2, shared);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
    EXPECT_TRUE(bits_of(r, shared) == want) << name_of(dtype);
  }
}
TEST(TrainRanks, SharedWeightsWithEveryUpdateRule) {
  const RunInputs inputs(true);
  for (const UpdateRule rule : kUpdateRules) {
    SCOPED_TRACE(name_of(rule));
    TrainSettings s = settings_of(inputs, DType::f32);
    s.optimizer = update_config(rule), s.micro_batch = 2, s.schedule.total_steps = 3;
    MemoryIo copies, shared;
    const std::string want = bits_of(train_on(s, 4, copies), copies);
    s.zero = 3;
    const TrainResult r = train_on(s, 4, shared);
    EXPECT_EQ(r.byte_mismatches, 0);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
    EXPECT_TRUE(bits_of(r, shared) == want);
  }
}

TEST(TrainRanks, InF64Too) { expect_bits_of_one(DType::f64, true); }

TEST(TrainRanks, AnotherOrderOfSumsIsAnotherRunToTheBit) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::f32);
  MemoryIo four, one;
  const std::string want = bits_of(train_on(s, 1, four), four);
  s.sum_order.groups = 1;
  EXPECT_FALSE(bits_of(train_on(s, 1, one), one) == want);
}

// Stopped by one rank alone: all leave at one step, and any number of ranks goes on to the same bits.
TEST(TrainRanks, AStopOfOneStopsAllAndAnotherNumberOfRanksGoesOn) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::bf16);
  MemoryIo whole;
  const std::string want = bits_of(train_on(s, 1, whole), whole);
  for (const auto& [before, after] : {std::pair(4, 1), std::pair(1, 2), std::pair(2, 4), std::pair(4, 2)}) {
    s.zero = before == 4 || after == 4;  // shared out or not: the checkpoint does not know
    MemoryIo io;
    std::atomic<bool> stop = false;
    const TrainHooks hooks{.step = [&](const StepReport& r) {
      if (r.step == 3) stop = true;
    }};
    const TrainResult first = train_on(s, before, io, hooks, stop);
    EXPECT_EQ(first.end, TrainEnd::interrupted);
    EXPECT_GE(first.last_step, 3);  // the last rank may have begun the fourth when rank 0 reports the third
    EXPECT_LE(first.last_step, 4);
    const TrainResult second = train_on(s, after, io);
    EXPECT_EQ(second.first_step, first.last_step);
    EXPECT_EQ(second.end, TrainEnd::finished);
    EXPECT_TRUE(bits_of(second, io) == want) << before << " ranks, then " << after;
  }
}

// Each rank's own clock and stop are local; what they decide is not. The clocks of all ranks but one stand still.
TEST(TrainRanks, TheTimeOfOneRankIsUpForAll) {
  struct Passing : VirtualClock {
    int64_t now_ns() const override { return 1'000'000'000 * ++asked; }
    mutable std::atomic<int64_t> asked = 0;
  };
  const RunInputs inputs(false);
  TrainSettings s = settings_of(inputs, DType::f32);
  s.ranks = 4, s.max_seconds = 0.5;
  for (const int early : {0, 3, -1}) {
    MemoryIo io;
    run_ranks(4, {}, [&](std::unique_ptr<Transport> transport) {
      with_threads(1, [&] {
        VirtualClock still;
        Passing passing;
        Clock& clock = transport->rank() == early ? passing : still;
        const TrainResult r = train(s, {}, io, {.world = std::make_shared<Comm>(std::move(transport)), .clock = clock});
        EXPECT_EQ(r.end, early < 0 ? TrainEnd::finished : TrainEnd::interrupted) << early;
        EXPECT_EQ(r.last_step, early < 0 ? s.schedule.total_steps : 0) << early;
      });
    });
  }
}

TEST(TrainRanks, WhatRankZeroRefusesEndsAllWithItsWords) {
  const RunInputs inputs(false);
  TrainSettings s = settings_of(inputs, DType::f32);
  MemoryIo io;
  s.memory_bytes = 1 << 20;
  try {
    train_on(s, 4, io);
    FAIL() << "no error";
  } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::does_not_fit) << e.what(); }
  s.memory_bytes.reset(), s.resume = Resume::must;
  try {
    train_on(s, 4, io);
    FAIL() << "no error";
  } catch (const Error& e) { EXPECT_EQ(e.kind(), ErrorKind::no_checkpoint) << e.what(); }
}

// Before the run, and at a write in its middle: all end with the disk's error, not with that of a lost rank.
TEST(TrainRanks, AFullDiskEndsAll) {
  const RunInputs inputs(false);
  const TrainSettings s = settings_of(inputs, DType::f32);
  const auto refused = [&](Io& io) -> std::string {
    try {
      train_on(s, 2, io);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::does_not_fit) << e.what();
      return e.what();
    }
    return "";
  };
  MemoryIo small, whole;
  small.capacity_bytes = 100'000;
  EXPECT_NE(refused(small), "");
  FaultIo counter(whole);
  train_on(s, 2, counter);
  int ended = 0;
  for (int part = 1; part <= 4; ++part) {
    MemoryIo disk;
    FaultIo full(disk, {.at = counter.num_operations() * part / 5, .kind = FaultKind::no_space});
    ended += refused(full).find("No space left") != std::string::npos;
  }
  EXPECT_GE(ended, 2) << "of 4; what only tidies up may go on";
}

// The process ends at an operation of its disk drawn by the seed: the same command, on any number of ranks, ends with the bits
// of the run that was never disturbed.
TEST(TrainRanks, WhatGoesOnAfterAKillAtAWriteHasTheSameBits) {
  constexpr uint64_t kSeed = 20261123;
  SCOPED_TRACE(fmt::format("seed {}", kSeed));
  const RunInputs inputs(true);
  const TrainSettings s = settings_of(inputs, DType::f32);
  MemoryIo whole;
  FaultIo counter(whole);
  const std::string want = bits_of(train_on(s, 2, counter), whole);
  const int64_t operations = counter.num_operations();
  ASSERT_GE(operations, 50);
  constexpr int kCases = 12;
  int resumed = 0;
  for (int i = 0; i < kCases; ++i) {                                     // one from each part of the run
    const auto part = static_cast<uint64_t>((operations - 1) / kCases);  // the last removes a lock
    const int64_t at =
        static_cast<int64_t>(random_u64({kSeed, 1}, static_cast<uint64_t>(i)) % part) + i * static_cast<int64_t>(part);
    MemoryIo disk;
    FaultIo faulty(disk, {.at = at, .kind = FaultKind::kill_before});
    EXPECT_THROW(train_on(s, 2, faulty), SimulatedKill) << at << " of " << operations;
    const auto after = disk.state_after_crash(kSeed + static_cast<uint64_t>(i));
    const TrainResult r = train_on(s, 1 << i % 3, *after);
    resumed += r.first_step > 0;
    EXPECT_TRUE(bits_of(r, *after) == want) << "killed before operation " << at << " of " << operations;
  }
  EXPECT_GT(resumed, 2);
}

// A rank is lost at a message drawn by the seed: all end with its name, and what goes on, on any number of ranks, ends with the
// bits of the run that was never disturbed.
void expect_bits_after_losses(int cases, uint64_t seed) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  const RunInputs inputs(true);
  const TrainSettings s = settings_of(inputs, DType::f32);
  MemoryIo whole;
  const std::string want = bits_of(train_on(s, 1, whole), whole);
  int lost = 0;
  for (int i = 0; i < cases; ++i) {
    const auto draw = [&](uint64_t what, int64_t below) {
      return static_cast<int64_t>(random_u64({seed, what}, static_cast<uint64_t>(i)) % static_cast<uint64_t>(below));
    };
    const auto who = static_cast<int>(draw(1, 4));
    const TransportFault fault{draw(2, 3) == 0 ? TransportFaultKind::hang : TransportFaultKind::kill, draw(3, 260)};
    MemoryIo io;
    try {
      train_on(s, 4, io, {}, kNeverStops, [&](std::unique_ptr<Transport> t) {
        return t->rank() == who ? faulty(std::move(t), fault) : std::move(t);
      });
    } catch (const Error& e) {
      ++lost;
      EXPECT_EQ(e.kind(), ErrorKind::peer);
      EXPECT_NE(std::string(e.what()).find(fmt::format("rank {}", who)), std::string::npos) << e.what();
    }
    const int ranks = 1 << draw(4, 3);
    const TrainResult r = train_on(s, ranks, io);
    EXPECT_EQ(r.end, TrainEnd::finished);
    EXPECT_TRUE(bits_of(r, io) == want) << "rank " << who << " lost at message " << fault.at_send << ", then " << ranks;
  }
  EXPECT_GT(lost, cases / 2);
}

TEST(TrainRanks, ALostRankEndsAllAndWhatGoesOnHasTheSameBits) { expect_bits_after_losses(8, 20261123); }
TEST(TrainRanksSlow, AHundredLostRanks) { expect_bits_after_losses(100, 1); }

// One document holds every rank, predicted and measured, with the same instructions.
TEST(TrainRanks, ATraceHoldsAllOfThem) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::f32);
  s.trace = "trace.json";
  MemoryIo io;
  const TrainResult r = train_on(s, 4, io);
  EXPECT_EQ(r.byte_mismatches, 0);
  std::map<int, std::vector<std::string>> names;  // by process
  const auto document = nlohmann::json::parse(io.read("trace.json"));
  for (const auto& e : document.at("traceEvents"))
    if (e.at("ph") == "X") {
      names[e.at("pid")].push_back(e.at("name"));
      EXPECT_GE(e.at("ts").get<double>(), 0.0);
      EXPECT_LT(e.at("ts").get<double>(), 1e8);
    }
  ASSERT_EQ(names.size(), 8u);
  EXPECT_GT(std::ranges::count_if(names[1], [](const std::string& n) { return n.find("REDUCE") != n.npos; }), 3);
  for (auto& [pid, list] : names) {
    std::ranges::sort(list), std::ranges::sort(names[1]);
    EXPECT_EQ(list, names[1]) << pid;
  }
}

TEST(TrainRanks, MemoryIsPredictedWithWhatGroupsKeep) {
  const RunInputs inputs(true);
  TrainSettings s = settings_of(inputs, DType::f32);
  for (const int64_t groups : {1, 2, 4, 8}) {
    s.sum_order.groups = groups;
    MemoryIo io;
    const TrainResult r = train_on(s, 1, io);
    EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors()) << groups;
    EXPECT_EQ(r.byte_mismatches, 0);
  }
}

}  // namespace
}  // namespace tern
