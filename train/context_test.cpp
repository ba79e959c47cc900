// Training on ranks that share out the rows of each micro-batch, alone and beside stages, tensor groups, replicas and ZeRO: the model of
// one rank, bytes and memory as predicted, checkpoints that know no ranks.
#include <gtest/gtest.h>

#include <functional>

#include "spec/recompute.h"
#include "train/mesh_testing.h"

namespace tern {
namespace {

// Four heads of each kind: four ranks can share them out.
TrainSettings short_context_run(const RunInputs& inputs, DType dtype) {
  TrainSettings s = settings_of(inputs, dtype);
  s.schedule.total_steps = 2, s.eval_every = 2, s.checkpoint_every = 0;
  s.batch = 4;
  return s;
}

TEST(TrainContext, AnyCompositionIsNearOneRank) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 2, 4, 4);
    TrainSettings s = short_context_run(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    RunsOfOneRank one(s);
    expect_near(one, {.context = tied ? 2 : 4});
    for (const int zero : {1, 2, 3}) {
      if (zero != (tied ? 3 : 2)) expect_near(one, {.data = 2, .zero = zero, .context = 2});
      expect_near(one, {.stages = 2, .data = tied ? 1 : 2, .zero = zero, .context = 2});
    }
    expect_near(one, {.stages = 2, .tensor = 2, .zero = tied ? 3 : 1, .recompute = Recompute::full, .context = 2});
    expect_near(one, {.tensor = 2, .zero = tied ? 2 : 0, .recompute = Recompute::attention, .context = 2});
  }
}

// Any number of key/value heads: two here, one to a rank of a tensor group.
TEST(TrainContext, InARingAnyCompositionIsNearOneRank) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied, 2, 4, 2);
    TrainSettings s = short_context_run(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    RunsOfOneRank one(s);
    expect_near(one, {.context = tied ? 2 : 4, .ring = true});
    for (const int zero : {1, 2, 3}) {
      if (zero != (tied ? 3 : 2)) expect_near(one, {.data = 2, .zero = zero, .context = 2, .ring = true});
      expect_near(one, {.stages = 2, .data = tied ? 1 : 2, .zero = zero, .context = 2, .ring = true});
    }
    expect_near(
        one,
        {.stages = 2, .tensor = 2, .zero = tied ? 3 : 1, .recompute = Recompute::full, .context = 2, .ring = true});
    expect_near(one,
                {.tensor = 2, .zero = tied ? 2 : 0, .recompute = Recompute::attention, .context = 2, .ring = true});
  }
}

// Norms by head; slopes by head.
TEST(TrainContext, HeadsThatAreNormedOrSlopedAreNearOneRank) {
  const RunInputs inputs(true, 2, 4, 4);
  const int64_t vocab = Tokenizer::load(kTokenizer).vocab_size();
  const std::string common =
      fmt::format(R"("vocab_size": {}, "hidden_size": 16, "tie_word_embeddings": true, "num_hidden_layers": 2)", vocab);
  for (const std::string& of_family :
       {std::string(
            R"("model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "intermediate_size": 24, "head_dim": 4,
 "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "hidden_act": "silu")"),
        std::string(R"("model_type": "bloom", "architectures": ["BloomForCausalLM"], "n_head": 4)")}) {
    write_file_atomically(real_io(), inputs.path + "/config.json", "{" + of_family + ", " + common + "}");
    TrainSettings s = short_context_run(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    RunsOfOneRank one(s);
    expect_near(one, {.context = 2});
    expect_near(one, {.context = 2, .ring = true});
    expect_near(one, {.stages = 2, .data = 2, .zero = 1, .recompute = Recompute::full, .context = 2});
  }
}

TEST(TrainContext, InOtherTypesAndWithOtherRules) {
  const RunInputs inputs(true, 2, 4, 2);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::muon}) {
      TrainSettings s = short_context_run(inputs, dtype);
      s.optimizer = update_config(rule);
      SCOPED_TRACE(fmt::format("{} {}", name_of(dtype), name_of(rule)));
      MemoryIo one;
      TrainSettings alone = s;
      alone.sum_order.groups = 2;
      const TrainResult want = train_on(alone, 1, one);
      for (const bool ring : {false, true}) {
        MemoryIo io;
        const TrainResult got = train_in_mesh(s, {.data = 2, .zero = 1, .context = 2, .ring = ring}, io);
        expect_whole(got);
        EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, dtype == DType::f32 ? 1e-4 : 3e-2);
      }
    }
}

TEST(TrainContext, AStoppedRunGoesOnUnderAnotherMesh) {
  const RunInputs inputs(true, 2, 4, 4);
  TrainSettings s = short_context_run(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  s.schedule.total_steps = 4, s.eval_every = 0, s.valid_data.clear();
  const MeshCase meshes[] = {
      {}, {.data = 2, .zero = 1, .context = 2}, {.stages = 2, .tensor = 2, .zero = 3, .context = 2, .ring = true}};
  MemoryIo whole;
  s.sum_order.groups = 1;
  const TrainResult want = train_on(s, 1, whole);
  for (const MeshCase& before : meshes)
    for (const MeshCase& after : meshes) {
      if (before.context * after.context == 1) continue;
      SCOPED_TRACE(to_string(before) + ", then " + to_string(after));
      MemoryIo io;
      std::atomic<bool> stop = false;
      const TrainHooks hooks{.step = [&](const StepReport& r) { stop = stop || r.step == 2; }};
      EXPECT_EQ(train_in_mesh(s, before, io, hooks, stop).end, TrainEnd::interrupted);
      const TrainResult r = train_in_mesh(s, after, io);
      EXPECT_GE(r.first_step, 2);
      expect_near(r, io, want, whole, 1e-12);
    }
}

TEST(TrainContext, WhatIsNotRunIsRefusedByNameBeforeAnythingIsWritten) {
  const RunInputs inputs(true, 2, 4, 2);
  const auto refusal = [&](const std::function<void(TrainSettings&)>& change, const MeshCase& mesh) -> std::string {
    TrainSettings s = settings_of(inputs, DType::f32);
    change(s);
    MemoryIo io;
    try {
      train_in_mesh(s, mesh, io);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_FALSE(io.stat("run"));
      return e.what();
    }
    return "run";
  };
  const auto same = [](TrainSettings&) {};
  EXPECT_NE(refusal(same, {.context = 4}).find("--context-parallel 4: unit 1 has 2 key/value heads"),
            std::string::npos);
  EXPECT_NE(refusal(same, {.tensor = 2, .context = 2}).find("--context-parallel 2: unit 1 has 1 key/value heads"),
            std::string::npos);
  EXPECT_NE(refusal(same, {.context = 4}).find("--context-by ring"), std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.seq = 6; }, {.context = 2, .ring = true})
                .find("the 6 tokens of --seq cannot be shared out in 4 equal parts; choose --seq 8"),
            std::string::npos);
  EXPECT_NE(
      refusal([](TrainSettings& s) { s.seq = 7; }, {.context = 2}).find("the 7 tokens of --seq cannot be shared out"),
      std::string::npos);
}

}  // namespace
}  // namespace tern
