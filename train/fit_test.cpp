#include "train/fit.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/memory_io.h"
#include "base/units.h"
#include "formats/hf/config.h"
#include "formats/hf/family.h"
#include "spec/recompute.h"
#include "train/disk_fit.h"
#include "train/nearest_fits.h"

namespace tern {
namespace {

ModelSpec spec_of(int64_t width = 256, int64_t layers = 4) {
  const NormSpec norm{.kind = NormKind::rms, .width = width};
  ModelSpec s{.family = "llama", .vocab = 1000, .width = width, .layers = layers, .context = 2048};
  s.rope = {.kind = RopeKind::standard, .rotary_dim = width / 8};
  s.units.push_back({-1, EmbedSpec{1000, width, 0}});
  for (int layer = 0; layer < layers; ++layer) {
    s.units.push_back({layer, AttentionSpec{norm, width, 8, 4, width / 8, false, false, 0}});
    s.units.push_back({layer, MlpSpec{norm, width, 3 * width, ActivationKind::silu, true, false}});
  }
  s.units.push_back({-1, HeadSpec{norm, width, 1000, false}});
  HfConfig named;
  named.model_type = s.family;
  s.names = hf_names(named);
  return s;
}

TrainSettings settings() {
  TrainSettings s;
  s.seq = 512, s.batch = s.micro_batch = 32;
  return s;
}

TEST(Fit, StateBytesAreTheParametersTimesTheirTypes) {
  const ModelSpec spec = spec_of();
  const int64_t n = num_parameters(spec);
  TrainSettings s = settings();
  PredictedMemory predicted = predict_memory(spec, s, 1000);
  EXPECT_EQ(predicted.weights, 4 * n);
  EXPECT_EQ(predicted.gradients, 4 * n);
  EXPECT_EQ(predicted.optimizer, 8 * n);
  EXPECT_EQ(predicted.staging, 12 * n);
  EXPECT_EQ(predicted.process, 1000);
  s.dtype = DType::bf16;
  predicted = predict_memory(spec, s, 1000);
  EXPECT_EQ(predicted.weights, 2 * n);
  EXPECT_EQ(predicted.optimizer, 12 * n);
  EXPECT_EQ(predicted.staging, 12 * n);
  s.dtype = DType::f64;
  EXPECT_EQ(predict_memory(spec, s, 0).staging, 24 * n);
}

TEST(Fit, SmallerMicroBatchesRecomputationAndShorterSequencesTakeLess) {
  const ModelSpec spec = spec_of();
  const auto total = [&](auto change) {
    TrainSettings s = settings();
    change(s);
    return predict_memory(spec, s, 0).total();
  };
  const int64_t base = total([](TrainSettings&) {});
  EXPECT_LT(total([](TrainSettings& s) { s.micro_batch = 8; }), base);
  EXPECT_LT(total([](TrainSettings& s) { s.recompute = Recompute::attention; }), base);
  EXPECT_LT(total([](TrainSettings& s) { s.seq = 256; }), base);
}

TEST(Fit, EveryAlternativeOfferedReallyFitsAndTheNearestKeepTheResult) {
  const ModelSpec spec = spec_of();
  const TrainSettings s = settings();
  const int64_t base = predict_memory(spec, s, 0).total();
  int offered = 0;
  for (const double share : {0.9, 0.6, 0.4, 0.3}) {
    const int64_t budget = static_cast<int64_t>(share * static_cast<double>(base));
    const auto nearest = nearest_fits(spec, s, 0, budget);
    for (const Alternative& a : nearest) EXPECT_LE(a.memory.total(), budget) << a.flags;
    if (!nearest.empty()) { EXPECT_EQ(nearest.size(), 3u); }
    offered += static_cast<int>(nearest.size());
  }
  EXPECT_GT(offered, 0);
  const auto nearest = nearest_fits(spec, s, 0, base - 1);
  ASSERT_EQ(nearest.size(), 3u);
  EXPECT_EQ(nearest[0].flags, "--micro-batch 16");
}

TEST(Fit, RefusalNamesBothFiguresTheBreakdownAndThreeWaysOut) {
  const ModelSpec spec = spec_of();
  const TrainSettings s = settings();
  const PredictedMemory predicted = predict_memory(spec, s, 0);
  EXPECT_NO_THROW(require_fit(spec, s, predicted, 0, predicted.total(), "allowed by --memory"));
  try {
    require_fit(spec, s, predicted, 0, predicted.total() / 2, "allowed by --memory");
    FAIL() << "no error";
  } catch (const Error& e) {
    const std::string text = e.what();
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    for (const char* word :
         {"allowed by --memory", "activations", "optimizer", "total", "nearest settings that fit", "--micro-batch"})
      EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  }
  try {
    require_fit(spec, s, predicted, 0, 1 << 20, "allowed by --memory");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("choose a smaller model"), std::string::npos) << e.what();
  }
}

// The bytes of the process differ from one start to another: what is recommended leaves room for that.
TEST(Fit, TheMemoryThatIsRecommendedIsEnoughForTheNextStart) {
  constexpr int64_t kMiB = int64_t{1} << 20;
  const ModelSpec spec = spec_of();
  TrainSettings s = settings();
  s.memory_bytes = kMiB;
  for (const int64_t process : {30 * kMiB, 200 * kMiB}) {
    const PredictedMemory predicted = predict_memory(spec, s, process);
    try {
      require_fit(spec, s, predicted, process, *s.memory_bytes, "allowed by --memory");
      FAIL() << "no error";
    } catch (const Error& e) {
      const std::string text = e.what(), before = "or --memory ";
      const size_t at = text.find(before);
      ASSERT_NE(at, std::string::npos) << text;
      const size_t end = text.find(',', at);
      const int64_t offered = parse_bytes(text.substr(at + before.size(), end - at - before.size()), "the refusal");
      const int64_t later = process + (process > 100 * kMiB ? 40 : 8) * kMiB;
      EXPECT_NO_THROW(require_fit(spec, s, predict_memory(spec, s, later), later, offered, "allowed by --memory"));
    }
  }
}

// Layers may be unlike: the guard against sums beyond 64 bits asks the widest attention, wherever it stands.
TEST(Fit, WhatTheWidestAttentionMakesUncountableIsRefused) {
  TrainSettings s = settings();
  s.seq = int64_t{1} << 20, s.micro_batch = 1;
  for (const size_t unit : {1, 3}) {
    ModelSpec spec = spec_of(256, 2);
    std::get<AttentionSpec>(spec.units[unit].spec).heads = 1 << 16;
    EXPECT_THROW(predict_memory(spec, s, 0), Error) << "unit " << unit;
  }
}

TEST(Fit, TheOnlyCheckpointOfARunTakesThePlaceOfActivations) {
  const ModelSpec spec = spec_of();
  TrainSettings s = settings();
  s.schedule.total_steps = 100;
  s.checkpoint_every = 50;
  const PredictedMemory on_the_way = predict_memory(spec, s, 0);
  s.checkpoint_every = 0;
  const PredictedMemory at_the_end = predict_memory(spec, s, 0);
  const int64_t state = on_the_way.weights + on_the_way.gradients + on_the_way.optimizer;
  const int64_t step = on_the_way.activations + on_the_way.workspace;
  EXPECT_EQ(on_the_way.tensors(), state + step + on_the_way.staging);
  EXPECT_EQ(at_the_end.tensors(), state + std::max(step, at_the_end.staging));
  EXPECT_NE(describe(at_the_end).find("after the last step"), std::string::npos);
  s.checkpoint_every = 100;
  EXPECT_EQ(predict_memory(spec, s, 0).tensors(), at_the_end.tensors()) << "the last step's checkpoint";
}

TEST(Fit, TheDiskIsPricedBeforeItIsWrittenTo) {
  const ModelSpec spec = spec_of();
  TrainSettings s = settings();
  s.output = "run";
  s.schedule.total_steps = 1000, s.checkpoint_every = 100, s.keep_checkpoints = 2;
  MemoryIo io;
  const int64_t n = num_parameters(spec);
  PredictedDisk predicted = predict_disk(spec, s, io);
  EXPECT_EQ(predicted.num_checkpoints, 3) << "two kept and the one being written";
  EXPECT_EQ(predicted.wanted(), 3 * 12 * n + 4 * n);
  EXPECT_NO_THROW(require_disk(predicted, s, io)) << "an unknown disk";
  io.capacity_bytes = predicted.wanted() - 1;
  try {
    require_disk(predicted, s, io);
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::does_not_fit);
    for (const char* word : {"run:", "3 checkpoints", "free 1 B", "--output", "--keep-checkpoints"})
      EXPECT_NE(std::string(e.what()).find(word), std::string::npos) << word << "\n" << e.what();
  }
  io.capacity_bytes = predicted.wanted();
  EXPECT_NO_THROW(require_disk(predicted, s, io));
  // What a resumed run will replace does not count twice.
  make_dirs(io, "run/checkpoints/step-100");
  io.create("run/checkpoints/step-100/rank-0.safetensors")->append(std::string(5000, 'x'));
  predicted = predict_disk(spec, s, io);
  EXPECT_EQ(predicted.present, 5000);
  EXPECT_NO_THROW(require_disk(predicted, s, io));
  s.schedule.total_steps = 60;
  EXPECT_EQ(predict_disk(spec, s, io).num_checkpoints, 1);
}

}  // namespace
}  // namespace tern
