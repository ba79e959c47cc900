// Training on ranks of which some lie: the plain run without them, resumed runs to the bit, memory to the byte, losses beside garbage.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "train/label_flip.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

TrainSettings robust_settings(const RunInputs& inputs, DType dtype, RobustConfig config, int ranks) {
  TrainSettings s = settings_of(inputs, dtype);
  s.sum_order.groups = ranks;
  s.robust = config;
  return s;
}

TEST(TrainRobust, TheMeanIsThePlainRunToTheBit) {
  const RunInputs inputs(true);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64})
    for (const int ranks : {2, 4}) {
      TrainSettings s = robust_settings(inputs, dtype, {}, ranks);
      MemoryIo aggregated, plain;
      const TrainResult one = train_on(s, ranks, aggregated);
      s.robust.reset();
      const TrainResult other = train_on(s, ranks, plain);
      EXPECT_TRUE(aggregated.read(one.model + "/model.safetensors") == plain.read(other.model + "/model.safetensors"));
      EXPECT_EQ(*one.loss, *other.loss);
      EXPECT_NE(one.program_checksum, other.program_checksum) << "another list: one REDUCE";
    }
}

std::vector<RobustConfig> configs() {
  std::vector<RobustConfig> list;
  for (const Aggregator a : {Aggregator::mean, Aggregator::krum, Aggregator::median, Aggregator::trimmed_mean,
                             Aggregator::geometric_median, Aggregator::centered_clipping})
    list.push_back({.aggregator = a, .byzantine = a == Aggregator::mean ? 0 : 2, .local_momentum = 0.9});
  list.push_back({.aggregator = Aggregator::geometric_median, .byzantine = 1, .mixing = Mixing::buckets});
  list.push_back({.aggregator = Aggregator::trimmed_mean, .byzantine = 3, .mixing = Mixing::nearest});
  return list;
}

// One process killed at a message, or all stopped: the same command leaves the bits of a run that was left alone.
TEST(TrainRobust, BytesAreThePredictedOnesAndAKilledRunGoesOnToTheSameBits) {
  const RunInputs inputs(false);
  for (const RobustConfig& config : configs())
    for (const DType dtype :
         config.mixing == Mixing::none ? std::vector{DType::f32, DType::bf16} : std::vector{DType::f64}) {
      SCOPED_TRACE(fmt::format("{} {}", kAggregatorNames[static_cast<size_t>(config.aggregator)], name_of(dtype)));
      TrainSettings s = robust_settings(inputs, dtype, config, 8);
      s.robust->attack = Attack::garbage, s.robust->attackers = config.byzantine > 0 ? 1 : 0;
      s.schedule.total_steps = 5;
      MemoryIo whole, killed;
      std::atomic<int64_t> sends = 0;
      const TrainResult want = train_on(s, 8, whole, {}, kNeverStops, counts_sends_of(2, sends));
      EXPECT_EQ(want.byte_mismatches, 0);
      EXPECT_EQ(want.counted_peak_bytes, want.predicted.tensors());
      EXPECT_THROW(train_on(s, 8, killed, {}, kNeverStops, kills(2, sends * 8 / 10)), Error);
      const TrainResult got = train_on(s, 8, killed);
      EXPECT_GT(got.first_step, 0);
      EXPECT_LT(got.first_step, 5);
      EXPECT_TRUE(bits_of(got, killed) == bits_of(want, whole));
    }
}

TEST(TrainRobust, LabelFlipsAreTheLastRanksAndTurnEveryTargetThatHasALoss) {
  TrainSettings s;
  s.ranks = 4;
  EXPECT_FALSE(flips_labels(s, 3)) << "nobody attacks";
  s.robust = RobustConfig{.attack = Attack::label_flip, .attackers = 2};
  for (int rank = 0; rank < 4; ++rank) EXPECT_EQ(flips_labels(s, rank), rank >= 2) << rank;
  s.robust->attack = Attack::garbage;
  EXPECT_FALSE(flips_labels(s, 3));
  std::vector<MicroBatch> batches;
  batches.emplace_back(std::vector<int32_t>{7, 0, 5, 66}, std::vector<int64_t>{0, 4},
                       std::vector<int32_t>{0, 5, -1, 66}, nullptr);
  flip_labels(batches, 67);
  EXPECT_EQ(batches[0].targets, (std::vector<int32_t>{66, 61, -1, 0}));
  EXPECT_EQ(batches[0].tokens, (std::vector<int32_t>{7, 0, 5, 66}));
}

TEST(TrainRobust, AnotherNumberOfRanksOrAnotherRuleIsAnotherRun) {
  const RunInputs inputs(false);
  TrainSettings s = robust_settings(inputs, DType::f32, {.aggregator = Aggregator::median, .byzantine = 1}, 4);
  s.schedule.total_steps = 2;
  MemoryIo io;
  train_on(s, 4, io);
  s.schedule.total_steps = 3;
  const auto refused = [&](TrainSettings changed, int ranks) -> std::string {
    changed.sum_order.groups = ranks;
    try {
      train_on(changed, ranks, io);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(refused(s, 8).find("--ranks: 4 in the checkpoint, 8 now"), std::string::npos) << refused(s, 8);
  TrainSettings other = s;
  other.robust->aggregator = Aggregator::geometric_median;
  EXPECT_NE(refused(other, 4).find("--aggregator: median"), std::string::npos);
  other = s, other.robust.reset();
  EXPECT_NE(refused(other, 4).find("--aggregator: median in the checkpoint, not set now"), std::string::npos);
}

TEST(TrainRobust, NotANumberBesideTheMeanIsRefusedWithARuleThatWouldStandIt) {
  const RunInputs inputs(false);
  TrainSettings s = robust_settings(inputs, DType::f32, {.attack = Attack::not_a_number, .attackers = 1}, 4);
  const auto refusal = [&] {
    MemoryIo io;
    try {
      train_on(s, 4, io);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::diverged);
      return std::string(e.what());
    }
    return std::string("it ran");
  };
  const std::string mean = refusal();
  EXPECT_NE(mean.find("1 of 4 ranks attacks (nan), and --aggregator mean has no defence; choose --aggregator "
                      "geometric-median --byzantine 1"),
            std::string::npos)
      << mean;
  EXPECT_EQ(mean.find("--learning-rate"), std::string::npos) << mean;
  s.robust->aggregator = Aggregator::geometric_median, s.robust->byzantine = 1;
  EXPECT_EQ(refusal(), "it ran");
  s.robust->attackers = 3;
  EXPECT_NE(refusal().find("choose fewer attackers"), std::string::npos) << refusal();
}

// Held-out loss of ByzSGDnm on eight ranks, of whom the last one attacks for the whole run; infinite where the run is refused.
double held_out_loss(const RunInputs& inputs, Aggregator rule, Attack attack, Mixing mixing = Mixing::none,
                     uint64_t seed = 3) {
  TrainSettings s = robust_settings(
      inputs, DType::f32,
      {.aggregator = rule, .byzantine = rule == Aggregator::mean ? 0 : 1, .mixing = mixing, .local_momentum = 0.9}, 8);
  s.robust->attack = attack, s.robust->attackers = attack == Attack::none ? 0 : 1;
  s.seed = s.robust->seed = seed;
  s.optimizer = update_config(UpdateRule::sngm, {{"momentum", 0.0}});
  s.batch = 32, s.micro_batch = 4;
  s.schedule = {.kind = LearningRateKind::linear,
                .peak = 0.3,
                .minimum = 0.01,
                .warmup_steps = 5,
                .decay_steps = 0,
                .total_steps = 100};
  s.eval_every = 100, s.eval_batches = 8, s.checkpoint_every = 0;
  MemoryIo io;
  try {
    return train_on(s, 8, io).evaluation->loss;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::diverged) << e.what();
    return INFINITY;
  }
}

TEST(TrainRobustScratch, Explore) {
  const RunInputs inputs(true);
  for (const Mixing mixing : {Mixing::none, Mixing::nearest, Mixing::buckets})
    for (const Aggregator rule : {Aggregator::mean, Aggregator::krum, Aggregator::median, Aggregator::trimmed_mean,
                                  Aggregator::geometric_median, Aggregator::centered_clipping}) {
      if (rule == Aggregator::mean && mixing != Mixing::none) continue;
      if (rule == Aggregator::krum && mixing == Mixing::buckets) continue;
      for (uint64_t seed = 3; seed < 6; ++seed) {
        const double alone = held_out_loss(inputs, rule, Attack::none, mixing, seed);
        const double beside = held_out_loss(inputs, rule, Attack::garbage, mixing, seed);
        std::printf("X %s %s seed %d: %.4f %.4f  %+.2f %%\n", kAggregatorNames[static_cast<size_t>(rule)].data(),
                    kMixingNames[static_cast<size_t>(mixing)].data(), static_cast<int>(seed), alone, beside,
                    100 * (beside / alone - 1));
        std::fflush(stdout);
      }
    }
}

// The robust run ends where it would without the attacker, the mean does not.
TEST(TrainRobustSlow, GarbageDoesNotKeepARobustRunFromItsLossAndRuinsTheMean) {
  const RunInputs inputs(true);
  const double plain = held_out_loss(inputs, Aggregator::mean, Attack::none);
  std::printf("mean, nobody lies: %.4f\n", plain);
  for (const Aggregator rule : {Aggregator::geometric_median, Aggregator::trimmed_mean}) {
    const double alone = held_out_loss(inputs, rule, Attack::none);
    for (const Attack attack : {Attack::garbage, Attack::not_a_number}) {
      if (rule == Aggregator::trimmed_mean && attack == Attack::not_a_number) continue;
      const double beside = held_out_loss(inputs, rule, attack);
      std::printf("%s: %.4f, beside %s %.4f\n", kAggregatorNames[static_cast<size_t>(rule)].data(), alone,
                  kAttackNames[static_cast<size_t>(attack)].data(), beside);
      EXPECT_NEAR(beside, alone, 0.02 * alone);
    }
  }
  for (const Attack attack : {Attack::garbage, Attack::not_a_number}) {
    const double ruined = held_out_loss(inputs, Aggregator::mean, attack);
    std::printf("mean beside %s: %.4f\n", kAttackNames[static_cast<size_t>(attack)].data(), ruined);
    EXPECT_GT(ruined, 1.2 * plain);
  }
}

}  // namespace
}  // namespace tern
