// What a run begins with and goes on from, of models with frozen units and adapters too.
#include "train/train_state.h"
#include "train/state_tensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/memory_io.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "spec/presets.h"
#include "train/fit.h"

namespace tern {
namespace {

// All but the second layer's attention frozen; adapters in every layer.
ModelSpec partly_frozen() {
  ModelSpec spec = with_adapters(decoder_of({.vocab = 40, .width = 16, .layers = 2, .heads = 2, .context = 32}), 3);
  spec.units[3].frozen = false;
  return spec;
}

TrainSettings settings_of(DType dtype) {
  TrainSettings s;
  s.from_scratch = true, s.seed = 11, s.dtype = dtype, s.seq = 8, s.batch = s.micro_batch = 2;
  s.schedule.total_steps = 2;
  return s;
}

std::vector<std::string> bits(const std::vector<Tensor*>& all) {
  std::vector<std::string> out;
  for (const Tensor* t : all) out.emplace_back(static_cast<const char*>(t->data()), static_cast<size_t>(t->bytes()));
  return out;
}

ModelWeights drawn(const ModelSpec& spec, const TrainSettings& s, DType dtype, Arena& arena) {
  ModelWeights weights = allocate_weights(spec, dtype, MemoryClass::weights, arena);
  initialize_weights(spec, weights, s.seed);
  initialize_adapters(spec, weights, s.seed);
  return weights;
}

class TrainStateOf : public ::testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(DTypes, TrainStateOf, ::testing::Values(DType::f32, DType::bf16, DType::f64));

TEST_P(TrainStateOf, FrozenUnitsBeginWithTheModelsWeightsAndMastersAreNotRounded) {
  const TrainSettings s = settings_of(GetParam());
  TrainInputs in;
  in.spec = partly_frozen();
  Arena arena, other;
  TrainState state = fresh_state(s, in, arena);
  ModelWeights want = drawn(in.spec, s, s.dtype, other);
  EXPECT_EQ(bits(tensors(in.spec, state.weights)), bits(tensors(in.spec, want)));
  EXPECT_EQ(bits(trained_tensors(in.spec, state.weights)), bits(trained_tensors(in.spec, want)));
  ModelWeights exact = drawn(in.spec, s, s.dtype == DType::f64 ? DType::f64 : DType::f32, other);
  const std::vector<Tensor*> trained = trained_tensors(in.spec, exact);
  ASSERT_EQ(trained.size(), state.optimizer.master.size());
  for (size_t i = 0; i < trained.size(); ++i)
    EXPECT_EQ(bits({trained[i]}), bits({&state.optimizer.master[i]})) << state.optimizer.infos[i].name;
}

TEST_P(TrainStateOf, ACheckpointHoldsWhatIsTrainedAndTheRestComesFromWhereTheRunBegan) {
  const TrainSettings s = settings_of(GetParam());
  TrainInputs in;
  in.spec = partly_frozen();
  Arena arena, writers, other;
  TrainState state = fresh_state(s, in, arena);
  for (const Tensor& master : state.optimizer.master)  // as a step leaves them
    ops::by_dtype(master.dtype(), [&]<class T>() {
      if constexpr (!std::is_same_v<T, bf16>)
        for (T& x : master.span<T>()) x = x * T(2) + T(1);
    });
  round_masters(in.spec, state.optimizer, state.weights);
  std::vector<NamedTensor> named;
  for (const StateTensor& t : state_tensors(s.optimizer, s.dtype, state.optimizer)) named.push_back({t.name, t.own});
  int64_t bytes = 0;
  for (const NamedTensor& t : named) bytes += t.tensor.bytes();
  EXPECT_EQ(predict_memory(in.spec, s, 0).staging, bytes);
  MemoryIo io;
  make_dirs(io, "run/checkpoints");
  CheckpointWriter writer(io, writers, {.checkpoints = "run/checkpoints", .id = "1"});
  writer.save({.step = 1, .samples = 2, .settings = {}, .made_by = {}, .files = {}}, named);
  writer.wait();
  const CheckpointSearch found = find_checkpoint(io, "run/checkpoints");
  ASSERT_TRUE(found.newest);
  TrainState again = load_state(s, in, io, found.newest->path, found.newest->manifest, other);
  EXPECT_EQ(bits(tensors(in.spec, again.weights)), bits(tensors(in.spec, state.weights)));
  EXPECT_EQ(bits(trained_tensors(in.spec, again.weights)), bits(trained_tensors(in.spec, state.weights)));
}

TEST_P(TrainStateOf, BeginsWithinThePrediction) {
  const TrainSettings s = settings_of(GetParam());
  TrainInputs in;
  in.spec = partly_frozen();
  Arena arena;
  const TrainState state = fresh_state(s, in, arena);
  EXPECT_LE(arena.peak_total(), predict_memory(in.spec, s, 0).tensors());
}

TEST_P(TrainStateOf, AdaptersAloneBeginWithoutAWiderCopyOfTheModel) {
  const TrainSettings s = settings_of(GetParam());
  TrainInputs in;
  in.spec = with_adapters(decoder_of({.vocab = 40, .width = 16, .layers = 2, .heads = 2, .context = 32}), 3);
  ASSERT_TRUE(trains_adapters_alone(in.spec));
  ASSERT_FALSE(trains_adapters_alone(partly_frozen()));
  Arena arena, other;
  TrainState state = fresh_state(s, in, arena);
  const PredictedMemory predicted = predict_memory(in.spec, s, 0);
  int64_t trained = 0;
  for (const ParameterInfo& info : trained_parameters(in.spec)) trained += info.shape.count();
  EXPECT_LE(arena.peak_total(), predicted.weights + predicted.gradients + predicted.optimizer + 4 * trained);
  EXPECT_LE(arena.peak_total(), predicted.tensors());
  ModelWeights exact = drawn(in.spec, s, s.dtype == DType::f64 ? DType::f64 : DType::f32, other);
  const std::vector<Tensor*> wanted = trained_tensors(in.spec, exact);
  ASSERT_EQ(wanted.size(), state.optimizer.master.size());
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_EQ(bits({wanted[i]}), bits({&state.optimizer.master[i]})) << state.optimizer.infos[i].name;
}

}  // namespace
}  // namespace tern
