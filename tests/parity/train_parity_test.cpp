// The same training, arranged otherwise: resumed, recomputed, accumulated.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/io.h"
#include "base/log.h"
#include "formats/hf/config.h"
#include "model/allocate_weights.h"
#include "model/initial_weights.h"
#include "model/model_files.h"
#include "spec/recompute.h"
#include "tests/e2e/train_process.h"
#include "train/checkpoint.h"
#include "train/trainer.h"

namespace tern {
namespace {

TrainSettings settings_of(const TinyRun& tiny, int out, DType dtype) {
  TrainSettings s;
  s.model = tiny.root() + "/config.json", s.from_scratch = true;
  s.data = tiny.root() + "/data.tokens", s.output = tiny.out(out);
  s.seq = 16, s.batch = 6, s.micro_batch = 6;
  s.schedule = {.kind = LearningRateKind::cosine,
                .peak = 1e-2,
                .minimum = 1e-3,
                .warmup_steps = 3,
                .decay_steps = 0,
                .total_steps = 12};
  s.dtype = dtype;
  s.checkpoint_every = 5;
  return s;
}

struct Final {
  double loss;
  std::string path;
};
Final run(const TrainSettings& s) {
  const TrainResult r = train(s);
  EXPECT_EQ(r.end, TrainEnd::finished);
  EXPECT_EQ(r.byte_mismatches, 0);
  return {r.loss.value_or(NAN), r.checkpoint + "/" + rank_file(0)};
}
std::string bits(const Final& f) { return real_io().read(f.path); }

// ‖a - b‖ / ‖a‖ over every tensor of the two checkpoints.
template <class T>
double difference(const Final& a, const Final& b, const std::string& prefix) {
  const Safetensors x(a.path), y(b.path);
  double sum = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const TensorView u = x[i], v = y.get(u.name);
    if (!u.name.starts_with(prefix)) continue;
    for (size_t k = 0; k < u.bytes.size(); k += sizeof(T)) {
      T p, q;
      std::memcpy(&p, u.bytes.data() + k, sizeof(T)), std::memcpy(&q, v.bytes.data() + k, sizeof(T));
      sum += std::pow(double(p) - double(q), 2), norm += double(p) * double(p);
    }
  }
  EXPECT_GT(norm, 0);
  return std::sqrt(sum / norm);
}

class TrainParity : public testing::TestWithParam<DType> {};

TEST_P(TrainParity, AResumedRunHasTheBitsOfTheUninterruptedOne) {
  const TinyRun tiny;
  const TrainSettings whole = settings_of(tiny, 0, GetParam());
  const Final want = run(whole);
  TrainSettings parts = settings_of(tiny, 1, GetParam());
  parts.max_seconds = 0.0;  // saves step 0 and stops
  EXPECT_EQ(train(parts).end, TrainEnd::interrupted);
  parts.max_seconds.reset();
  const Final got = run(parts);
  EXPECT_EQ(bits(got), bits(want));
  // Back to the checkpoint of step 10, whose moments and position matter.
  remove_all(real_io(), tiny.out(1) + "/checkpoints/step-12");
  const TrainResult again = train(parts);
  EXPECT_EQ(again.first_step, 10);
  EXPECT_EQ(bits({0, again.checkpoint + "/" + rank_file(0)}), bits(want));
  EXPECT_EQ(again.loss, want.loss);
}

TEST_P(TrainParity, RecomputationChangesNoBit) {
  const TinyRun tiny;
  TrainSettings s = settings_of(tiny, 0, GetParam());
  const std::string want = bits(run(s));
  for (const Recompute mode : {Recompute::attention, Recompute::full}) {
    s.output = tiny.out(1 + static_cast<int>(mode));
    s.recompute = mode;
    EXPECT_EQ(bits(run(s)), want) << name_of(mode);
  }
}

INSTANTIATE_TEST_SUITE_P(DTypes, TrainParity, testing::Values(DType::f32, DType::bf16, DType::f64),
                         [](const auto& one) { return std::string(name_of(one.param)); });

// Sums of the same terms in another order. SGD is linear in them; AdamW divides by their size, so in f32 only the
// weights are compared, to the size of twelve steps' rounding.
TEST(TrainAccumulation, MicroBatchSizesAgreeTo1e12InF64) {
  const TinyRun tiny;
  TrainSettings s = settings_of(tiny, 0, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd, {{"momentum", 0.9}});
  const Final want = run(s);
  for (const int64_t micro : {1, 2, 4}) {
    s.output = tiny.out(static_cast<int>(micro)), s.micro_batch = micro;
    EXPECT_LE(difference<double>(want, run(s), ""), 1e-12) << micro;
  }
}

TEST(TrainAccumulation, MicroBatchSizesAgreeInF32) {
  const TinyRun tiny;
  TrainSettings s = settings_of(tiny, 0, DType::f32);
  const Final want = run(s);
  s.output = tiny.out(1), s.micro_batch = 1;
  EXPECT_LE(difference<float>(want, run(s), "model."), 1e-4);
}

// A tiny DeepSeek-V3, whose router has numbers that no gradient reaches.
std::string write_deepseek(const TinyRun& tiny) {
  HfConfig c;
  c.model_type = "deepseek_v3";
  c.vocab_size = read_hf_config(tiny.root() + "/config.json").vocab_size;
  c.hidden_size = 16, c.intermediate_size = 24, c.num_hidden_layers = 2, c.max_position_embeddings = 64;
  c.num_attention_heads = c.num_key_value_heads = 2;
  c.query_rank = 6, c.kv_rank = 8, c.plain_head_dim = 4, c.head_dim = 4, c.value_head_dim = 6;
  c.rope.type = RopeType::standard, c.rope_interleaved = true;
  c.num_experts = 6, c.experts_per_token = 2, c.expert_size = 8, c.shared_expert_size = 8;
  c.grouped_choice = true, c.expert_groups = 2, c.top_groups = 1, c.expert_layers = {false, true};
  const ModelSpec spec = model_spec(c);
  Arena arena;
  ModelWeights weights = allocate_weights(spec, DType::f32, MemoryClass::weights, arena);
  initialize_weights(spec, weights, 3);
  const std::span<float> bias = std::get<MoeWeights>(weights.units.at(4)).choice_bias.span<float>();
  for (size_t e = 0; e < bias.size(); ++e) bias[e] = 0.1f + 0.01f * static_cast<float>(e);  // no number of bf16
  const std::string dir = tiny.root() + "/deepseek";
  save_model(spec, c, weights, DType::f32, dir, real_io());
  return dir;
}

TEST(TrainExperts, WhatIsNotTrainedIsKeptToTheBitThroughCheckpointsAndResumption) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const TinyRun tiny;
    TrainSettings s = settings_of(tiny, 0, dtype);
    s.model = write_deepseek(tiny), s.from_scratch = false;
    const TrainResult whole = train(s);
    EXPECT_EQ(whole.byte_mismatches, 0);
    EXPECT_EQ(whole.counted_peak_bytes, whole.predicted.tensors());
    const std::string want = bits({0, whole.checkpoint + "/" + rank_file(0)});
    remove_all(real_io(), tiny.out(0) + "/checkpoints/step-12");
    const TrainResult again = train(s);
    EXPECT_EQ(again.first_step, 10);
    EXPECT_EQ(bits({0, again.checkpoint + "/" + rank_file(0)}), want);
    const std::string name = "model.layers.1.mlp.gate.e_score_correction_bias";
    const Safetensors before(s.model + "/model.safetensors"), after(tiny.out(0) + "/model/model.safetensors");
    ASSERT_EQ(after.get(name).dtype, DType::f32);
    EXPECT_TRUE(std::ranges::equal(after.get(name).bytes, before.get(name).bytes));
  }
}

// Every rule as a run: the state after a kill is the state, its bytes are those that were predicted, and what is written as the model
// is what the checkpoint holds.
TEST(TrainRules, EachIsResumedToTheBitWithTheBytesThatWerePredicted) {
  for (const UpdateRule rule : kUpdateRules)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(name_of(rule)) + " " + std::string(name_of(dtype)));
      const TinyRun tiny;
      TrainSettings s = settings_of(tiny, 0, dtype);
      s.optimizer = update_config(rule);
      s.valid_data = s.data, s.eval_every = 4, s.eval_batches = 1;
      const TrainResult whole = train(s);
      EXPECT_EQ(whole.byte_mismatches, 0);
      EXPECT_EQ(whole.counted_peak_bytes, whole.predicted.tensors());
      const std::string want = bits({0, whole.checkpoint + "/" + rank_file(0)});
      const Safetensors state(whole.checkpoint + "/" + rank_file(0)), model(tiny.out(0) + "/model/model.safetensors");
      if (dtype == DType::f32) {
        EXPECT_TRUE(
            std::ranges::equal(model.get("model.embed_tokens.weight").bytes, state.get("model.embed.tokens").bytes));
      }
      remove_all(real_io(), tiny.out(0) + "/checkpoints/step-12");
      remove_all(real_io(), tiny.out(0) + "/model");
      const TrainResult again = train(s);
      EXPECT_EQ(again.first_step, 10);
      EXPECT_EQ(bits({0, again.checkpoint + "/" + rank_file(0)}), want);
      EXPECT_EQ(again.evaluation->loss, whole.evaluation->loss);
    }
}

TEST(TrainMemory, CountedStateIsWhatThePlanSaid) {
  const TinyRun tiny;
  int number = 0;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const bool checkpoints_on_the_way : {false, true}) {
      TrainSettings s = settings_of(tiny, number++, dtype);
      s.checkpoint_every = checkpoints_on_the_way ? s.schedule.total_steps / 2 : 0;
      const TrainResult r = train(s);
      EXPECT_EQ(r.byte_mismatches, 0);
      EXPECT_EQ(r.predicted.staging_during_steps, checkpoints_on_the_way);
      EXPECT_EQ(r.counted_peak_bytes, r.predicted.tensors());
    }
}

}  // namespace
}  // namespace tern
