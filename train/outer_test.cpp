// Ranks that train alone and rarely average: the plain run at one step, resumed runs to the bit also while an average is under way, memory and
// bytes as predicted.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "train/outer_run.h"
#include "train/outer_settings.h"
#include "train/ranks_testing.h"

namespace tern {
namespace {

TrainSettings outer_settings(const RunInputs& inputs, DType dtype, const std::optional<OuterConfig>& outer, int ranks) {
  TrainSettings s = settings_of(inputs, dtype);
  s.sum_order.groups = ranks;
  s.outer = outer;
  return s;
}

// The numbers of an f64 model.
std::vector<double> numbers_of(const TrainResult& r, Io& io) {
  const std::string file = io.read(r.model + "/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, file.data(), sizeof(header));
  std::vector<double> all((file.size() - 8 - header) / 8);
  std::memcpy(all.data(), file.data() + 8 + header, all.size() * 8);
  return all;
}

TEST(TrainOuter, AveragingAfterEachStepOfPlainSgdIsSummingGradients) {
  const RunInputs inputs(true);
  for (const int ranks : {2, 4}) {
    TrainSettings s = outer_settings(inputs, DType::f64, OuterConfig{.every = 1}, ranks);
    s.optimizer = update_config(UpdateRule::sgd, {{"momentum", 0.0}, {"weight-decay", 0.0}});
    s.optimizer.clip = 0;
    MemoryIo apart, together;
    const TrainResult one = train_on(s, ranks, apart);
    s.outer.reset();
    const TrainResult other = train_on(s, ranks, together);
    EXPECT_NEAR(*one.loss, *other.loss, 1e-12 * *other.loss);
    const std::vector<double> got = numbers_of(one, apart), want = numbers_of(other, together);
    ASSERT_EQ(got.size(), want.size());
    double worst = 0, largest = 0;
    for (size_t i = 0; i < want.size(); ++i)
      worst = std::max(worst, std::abs(got[i] - want[i])), largest = std::max(largest, std::abs(want[i]));
    EXPECT_LE(worst, 1e-12 * largest);
  }
}

std::vector<OuterConfig> outer_configs() {
  return {
      {.every = 2},
      {.every = 3, .rate = 0.7, .momentum = 0.9},
      {.every = 4, .rate = 0.7, .momentum = 0.9, .fragments = 2, .delay = 2, .mix = 0.5},
      {.every = 3, .rate = 0.7, .momentum = 0.9, .fragments = 3, .delay = 1, .codec = OuterCodec::int4},
      {.every = 2, .codec = OuterCodec::int8},
      {.every = 2,
       .rate = 0.7,
       .momentum = 0.5,
       .nesterov = false,
       .pairs = true,
       .fragments = 2,
       .delay = 1,
       .seed = 3},
      {.every = 2, .momentum = 0.5, .nesterov = false, .delay = 2, .codec = OuterCodec::sign},
      {.every = 1, .rate = 1, .momentum = 0.9, .codec = OuterCodec::power_sgd, .codec_rank = 2, .away = {{1, 2, 3}}}};
}

int64_t predicted_bytes(const RunInputs& inputs, const TrainSettings& s, int ranks) {
  TrainSettings one = s;
  one.model = inputs.path + "/config.json";
  const ModelSpec spec = load_inputs(one).spec;
  const std::vector<OuterFragment> fragments = outer_fragments(spec, *s.outer);
  int64_t bytes = 0;
  for (int64_t step = 1; step <= s.schedule.total_steps; ++step)
    for (int f = 0; f < s.outer->fragments; ++f)
      if (sends_at(*s.outer, f, step))
        bytes += outer_fragment_bytes(*s.outer, fragments[static_cast<size_t>(f)], f, ranks, step,
                                      s.dtype == DType::f64 ? DType::f64 : DType::f32);
  return bytes;
}

// One rank killed at a message, with checkpoints after each step, so that some hold an average under way: the same command leaves the bits of a run
// that was left alone. Without `everything` each config in one type, killed once, in the run's later half.
void expect_bits_after_kills(bool everything) {
  const RunInputs inputs(false);
  const std::vector<OuterConfig> all = outer_configs();
  constexpr std::array kTypes{DType::f32, DType::bf16, DType::f64};
  constexpr std::array kTenths{3, 6, 9};  // of what is sent behind the first two steps
  for (size_t c = 0; c < all.size(); ++c)
    for (size_t t = 0; t < kTypes.size(); ++t) {
      const OuterConfig& config = all[c];
      const DType dtype = kTypes[t];
      if (dtype == DType::f64 && config.codec == OuterCodec::none) continue;
      if (!everything && t != (config.codec == OuterCodec::none ? c % 2 : (c + 1) % 3)) continue;
      SCOPED_TRACE(fmt::format("every {} fragments {} delay {} {}", config.every, config.fragments, config.delay,
                               name_of(dtype)));
      TrainSettings s = outer_settings(inputs, dtype, config, 4);
      s.checkpoint_every = 1, s.micro_batch = 2;
      MemoryIo whole;
      std::atomic<int64_t> sends = 0;
      const TrainResult want = train_on(s, 4, whole, {}, kNeverStops, counts_sends_of(2, sends));
      TrainSettings two_steps = s;
      two_steps.schedule.total_steps = 2;
      MemoryIo begun;
      std::atomic<int64_t> sends_of_two = 0;
      train_on(two_steps, 4, begun, {}, kNeverStops, counts_sends_of(2, sends_of_two));
      EXPECT_EQ(want.byte_mismatches, 0);
      EXPECT_EQ(want.counted_peak_bytes, want.predicted.tensors());
      EXPECT_EQ(want.outer_bytes, predicted_bytes(inputs, s, 4));
      // 1/H of what gradients take.
      if (config.codec == OuterCodec::none && config.fragments == 1 && !config.pairs) {
        EXPECT_EQ(want.outer_bytes, 6 / config.every * 2 * (4 - 1) * 4 * want.num_parameters);
      }
      for (size_t kill = 0; kill < kTenths.size(); ++kill) {
        if (!everything && kill != c % kTenths.size()) continue;
        const int tenths = kTenths[kill];
        MemoryIo killed;
        const int64_t at = sends_of_two + (sends - sends_of_two) * tenths / 10;
        EXPECT_THROW(train_on(s, 4, killed, {}, kNeverStops, kills(2, at)), Error);
        const TrainResult got = train_on(s, 4, killed);
        EXPECT_GT(got.first_step, 0);
        EXPECT_LT(got.first_step, 6);
        EXPECT_TRUE(bits_of(got, killed) == bits_of(want, whole)) << "from step " << got.first_step;
      }
    }
}

TEST(TrainOuter, BytesAreThePredictedOnesAndAKilledRunGoesOnToTheSameBits) { expect_bits_after_kills(false); }
TEST(TrainOuterSlow, InEveryTypeAKilledRunGoesOnToTheSameBits) { expect_bits_after_kills(true); }

TEST(TrainOuter, AnotherNumberOfRanksOrAnotherRoundIsAnotherRun) {
  const RunInputs inputs(false);
  TrainSettings s = outer_settings(inputs, DType::f32, OuterConfig{.every = 2}, 4);
  s.schedule.total_steps = 2;
  MemoryIo io;
  train_on(s, 4, io);
  s.schedule.total_steps = 4;
  const auto refused = [&](TrainSettings changed, int ranks) -> std::string {
    changed.sum_order.groups = ranks;
    try {
      train_on(changed, ranks, io);
    } catch (const Error& e) { return e.what(); }
    return "";
  };
  EXPECT_NE(refused(s, 8).find("--ranks: 4 in the checkpoint, 8 now"), std::string::npos) << refused(s, 8);
  TrainSettings other = s;
  other.outer->every = 1;
  EXPECT_NE(refused(other, 4).find("--outer-every: 2 in the checkpoint, 1 now"), std::string::npos);
  other = s, other.outer.reset();
  EXPECT_NE(refused(other, 4).find("--outer-every: 2 in the checkpoint, not set now"), std::string::npos);
}

// What a rank learns while it is cut off is lost; the others' model is that of averages without it, and it comes back to that model.
TEST(TrainOuter, WhoIsCutOffIsMissedAndComesBack) {
  const RunInputs inputs(true);
  TrainSettings s = outer_settings(inputs, DType::f64, OuterConfig{.every = 1}, 4);
  s.optimizer = update_config(UpdateRule::sgd, {{"momentum", 0.0}, {"weight-decay", 0.0}});
  s.optimizer.clip = 0;
  const auto trained = [&](std::vector<OuterAbsence> away) {
    s.outer->away = std::move(away);
    MemoryIo io;
    const TrainResult r = train_on(s, 4, io);
    EXPECT_EQ(r.byte_mismatches, 0);
    return numbers_of(r, io);
  };
  const std::vector<double> all = trained({}), without = trained({{2, 2, 6}}), back = trained({{2, 2, 3}});
  EXPECT_NE(all, without);
  EXPECT_NE(back, without) << "it is there again in steps 4 to 6";
  EXPECT_NE(back, all);
  EXPECT_EQ(trained({{2, 2, 3}, {2, 4, 6}}), without);
}

// Held-out losses of one text, all with the same samples. The ranks' own steps are of a quarter of the batch, which helps at this rate and length.
TEST(TrainOuterSlow, RareAveragesLearnNoWorseThanSummedGradients) {
  const RunInputs inputs(true);
  const auto held_out = [&](const std::optional<OuterConfig>& outer) {
    TrainSettings s = outer_settings(inputs, DType::f32, outer, 4);
    s.batch = 32, s.micro_batch = 8;
    s.schedule.peak = 3e-3, s.schedule.minimum = 3e-4, s.schedule.warmup_steps = 10, s.schedule.total_steps = 200;
    s.eval_every = 200, s.eval_batches = 8, s.checkpoint_every = 0;
    MemoryIo io;
    const TrainResult r = train_on(s, 4, io);
    return std::pair(r.evaluation->loss, r.outer_bytes);
  };
  const auto [plain, none] = held_out({});
  EXPECT_EQ(none, 0);
  std::printf("summed gradients: %.4f\n", plain);
  int64_t dense = 0;
  for (const OuterCodec codec : {OuterCodec::none, OuterCodec::int8, OuterCodec::int4}) {
    const auto [loss, bytes] = held_out(OuterConfig{.every = 10, .rate = 0.7, .momentum = 0.9, .codec = codec});
    std::printf("every 10 steps, codec %s: %.4f, %lld bytes\n", kOuterCodecNames[static_cast<size_t>(codec)].data(),
                loss, static_cast<long long>(bytes));
    EXPECT_LE(loss, 1.02 * plain);
    if (codec == OuterCodec::none) dense = bytes;
    const double share = static_cast<double>(bytes) / static_cast<double>(dense);
    EXPECT_NEAR(share, codec == OuterCodec::none ? 1 : codec == OuterCodec::int8 ? 132.0 / 512 : 68.0 / 512, 0.01);
  }
}

}  // namespace
}  // namespace tern
