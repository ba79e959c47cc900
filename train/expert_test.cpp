// Training on ranks that share out the experts of mixtures, alone and beside stages, context groups, replicas and ZeRO: the model of one
// rank, bytes and memory as predicted, checkpoints that know no ranks.
#include <gtest/gtest.h>

#include <functional>

#include "base/units.h"
#include "comm/ranks_testing.h"
#include "spec/recompute.h"
#include "train/mesh_testing.h"

namespace tern {
namespace {

struct Mixture {
  std::string type, architecture, more;
};
// Two layers of eight experts, of which a token has two: no more; also an expert for all tokens, behind a gate; latent attention, a dense
// first layer, experts chosen by groups and by a bias.
const Mixture kMixtral{"mixtral", "MixtralForCausalLM", R"("num_local_experts": 8, "num_key_value_heads": 2)"};
const Mixture kShared{"qwen2_moe", "Qwen2MoeForCausalLM",
                      R"("num_experts": 8, "moe_intermediate_size": 12, "shared_expert_intermediate_size": 20,
 "num_key_value_heads": 2, "decoder_sparse_step": 1, "norm_topk_prob": false)"};
const Mixture kQwen3{"qwen3_moe", "Qwen3MoeForCausalLM",
                     R"("num_experts": 8, "moe_intermediate_size": 12, "head_dim": 8, "num_key_value_heads": 2,
 "decoder_sparse_step": 1, "norm_topk_prob": true)"};
const Mixture kDeepSeek{"deepseek_v3", "DeepseekV3ForCausalLM",
                        R"("n_routed_experts": 8, "moe_intermediate_size": 12, "n_shared_experts": 1, "n_group": 2,
 "topk_group": 1, "norm_topk_prob": true, "routed_scaling_factor": 1.5, "first_k_dense_replace": 1, "kv_lora_rank": 8,
 "q_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "num_key_value_heads": 2)"};

// The inputs of a run of this model.
void write_mixture(const RunInputs& inputs, const Mixture& m, bool tied = false) {
  const int64_t vocab = Tokenizer::load(kTokenizer).vocab_size();
  write_file_atomically(
      real_io(), inputs.path + "/config.json",
      fmt::format(R"({{"model_type": "{}", "architectures": ["{}"], "vocab_size": {}, "hidden_size": 16,
 "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "num_experts_per_tok": 2,
 "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": {}, "hidden_act": "silu", {}}})",
                  m.type, m.architecture, vocab, tied, m.more));
}

TrainSettings short_expert_run(const RunInputs& inputs, DType dtype) {
  TrainSettings s = settings_of(inputs, dtype);
  s.schedule.total_steps = 2, s.eval_every = 2, s.checkpoint_every = 0;
  return s;
}

TEST(TrainExperts, EveryMixtureIsNearOneRank) {
  for (const Mixture* m : {&kMixtral, &kShared, &kQwen3, &kDeepSeek}) {
    SCOPED_TRACE(m->type);
    const RunInputs inputs(false);
    write_mixture(inputs, *m);
    TrainSettings s = short_expert_run(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    RunsOfOneRank one(s);
    expect_near(one, {.data = 2, .experts = 2});
    expect_near(one, {.data = 4, .experts = 4});
    expect_near(one, {.data = 4, .recompute = Recompute::full, .experts = 2});
  }
}

TEST(TrainExperts, AnyCompositionIsNearOneRank) {
  for (const bool tied : {false, true}) {
    const RunInputs inputs(tied);
    write_mixture(inputs, kShared, tied);
    TrainSettings s = short_expert_run(inputs, DType::f64);
    s.optimizer = update_config(UpdateRule::sgd);
    RunsOfOneRank one(s);
    for (const int zero : {1, 2, 3}) {
      expect_near(one, {.data = 4, .zero = zero, .experts = 2});
      expect_near(one, {.data = 2, .zero = zero, .experts = 2});
      if (!tied || zero != 3) expect_near(one, {.stages = 2, .data = 4, .zero = zero, .experts = 2});
    }
    expect_near(one, {.stages = 2, .data = 2, .recompute = Recompute::full, .experts = 2});
    expect_near(one, {.data = 2, .context = 2, .experts = 4});
    expect_near(one, {.data = 2, .context = 2, .experts = 2, .ring = true});
    expect_near(one, {.stages = 2, .data = 2, .zero = 1, .context = 2, .experts = 2});
  }
}

TEST(TrainExperts, InOtherTypesAndWithOtherRules) {
  const RunInputs inputs(false);
  write_mixture(inputs, kShared);
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const UpdateRule rule : {UpdateRule::adamw, UpdateRule::muon, UpdateRule::lamb})
      for (const int zero : {0, 2}) {
        TrainSettings s = short_expert_run(inputs, dtype);
        s.optimizer = update_config(rule);
        SCOPED_TRACE(fmt::format("{} {} zero {}", name_of(dtype), name_of(rule), zero));
        MemoryIo io, one;
        const TrainResult got = train_in_mesh(s, {.data = 4, .zero = zero, .experts = 2}, io);
        expect_whole(got);
        const TrainResult want = train_on(s, 1, one);
        EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, dtype == DType::f32 ? 1e-4 : 3e-2);
      }
}

TEST(TrainExperts, InF32WeightsAreNearThoseOfOneRank) {
  const RunInputs inputs(false);
  write_mixture(inputs, kMixtral);
  TrainSettings s = short_expert_run(inputs, DType::f32);
  s.optimizer = update_config(UpdateRule::sgd);
  for (const int experts : {2, 4}) {
    SCOPED_TRACE(experts);
    MemoryIo one, many;
    const TrainResult want = train_on(s, 1, one), got = train_in_mesh(s, {.data = 4, .experts = experts}, many);
    EXPECT_LE(std::abs(*got.loss - *want.loss) / *want.loss, 1e-6);
    const CheckpointData is(many, got.checkpoint, 0), was(one, want.checkpoint, 0);
    for (size_t i = 0; i < was.tensors().size(); ++i)
      EXPECT_LE(difference<float>(is.tensors().get(was.tensors()[i].name), was.tensors()[i]), 1e-5);
  }
}

// Groups of micro-batches that a rank sums apart.
TEST(TrainExperts, SumGroupsAreNearOneRank) {
  const RunInputs inputs(false);
  write_mixture(inputs, kMixtral);
  TrainSettings s = short_expert_run(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  MemoryIo one, two;
  const TrainResult want = train_on(s, 1, one);
  s.expert_ranks = 2, s.capacity_factor = 2;
  const TrainResult got = train_on(s, 2, two);
  expect_whole(got);
  expect_near(got, two, want, one, 1e-12);
}

// Rows beyond the room take memory of their own, which is counted beside what was predicted; they are computed as the others are.
TEST(TrainExperts, NoRowIsDroppedWhereThereIsNoRoomForIt) {
  const RunInputs inputs(false);
  write_mixture(inputs, kMixtral);
  TrainSettings s = short_expert_run(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  MemoryIo wide, narrow;
  const TrainResult want = train_in_mesh(s, {.data = 4, .experts = 4}, wide);
  std::vector<std::string> notes;
  const TrainHooks hooks{.note = [&](const std::string& text) { notes.push_back(text); }};
  const TrainResult got = train_in_mesh(s, {.data = 4, .experts = 4, .capacity = 1}, narrow, hooks);
  EXPECT_EQ(got.byte_mismatches, 0);
  EXPECT_TRUE(bits_of(got, narrow) == bits_of(want, wide));
  EXPECT_LT(got.predicted.tensors(), want.predicted.tensors());
  EXPECT_GT(got.counted_peak_bytes, got.predicted.tensors());
  EXPECT_TRUE(std::ranges::any_of(notes, [&](const std::string& text) {
    return text.find("times an even share of rows") != std::string::npos &&
           text.ends_with(format_bytes(got.counted_peak_bytes - got.predicted.tensors()) + " more were taken");
  })) << fmt::format("{}", fmt::join(notes, "\n"));
}

// The first step says so, once; the factor that it names has room for that step.
TEST(TrainExperts, RowsWithoutRoomAreToldWhenTheyFirstCome) {
  const RunInputs inputs(false);
  write_mixture(inputs, kMixtral);
  TrainSettings s = short_expert_run(inputs, DType::f32);
  const auto told = [&](double capacity, int64_t steps) {
    s.schedule.total_steps = steps;
    MemoryIo io;
    std::vector<std::string> notes;
    int64_t last = 0;
    TrainHooks hooks;
    hooks.step = [&](const StepReport& r) { last = r.step; };
    hooks.note = [&](const std::string& text) {
      if (text.find("have had room") == std::string::npos) return;
      EXPECT_TRUE(text.starts_with(fmt::format("step {}: ", last))) << text;
      notes.push_back(text);
    };
    train_in_mesh(s, {.data = 4, .experts = 4, .capacity = capacity}, io, hooks);
    return notes;
  };
  const std::vector<std::string> notes = told(1, 3);
  ASSERT_EQ(notes.size(), 1u) << fmt::format("{}", fmt::join(notes, "\n"));
  EXPECT_TRUE(notes[0].starts_with("step 1: "));
  const size_t at = notes[0].find("; ", notes[0].find("--capacity-factor 1);")) + 2;
  const double enough = std::stod(notes[0].substr(at));
  EXPECT_GT(enough, 1);
  EXPECT_TRUE(told(enough, 1).empty());
  EXPECT_EQ(told(enough - 0.1, 1).size(), 1u);
}

// Twice, and over sockets.
TEST(TrainExperts, TheSameRunHasTheSameBitsOverAnyTransport) {
  const RunInputs inputs(false);
  write_mixture(inputs, kShared);
  const TrainSettings s = settings_in_mesh(short_expert_run(inputs, DType::f32), {.data = 4, .zero = 1, .experts = 2});
  MemoryIo first, again, sockets;
  const TrainResult want = train_on(s, 4, first), same = train_on(s, 4, again);
  EXPECT_TRUE(bits_of(same, again) == bits_of(want, first));
  TrainResult got;
  run_socket_ranks(4, 30, [&](std::unique_ptr<Transport> transport) {
    with_threads(1, [&] {
      const int rank = transport->rank();
      TrainResult own = train(s, {}, sockets, {.world = std::make_shared<Comm>(std::move(transport))});
      if (rank == 0) got = std::move(own);
    });
  });
  EXPECT_TRUE(bits_of(got, sockets) == bits_of(want, first));
  EXPECT_EQ(*got.loss, *want.loss);
}

TEST(TrainExperts, AStoppedRunGoesOnUnderAnotherMesh) {
  const RunInputs inputs(false);
  write_mixture(inputs, kShared);
  TrainSettings s = short_expert_run(inputs, DType::f64);
  s.optimizer = update_config(UpdateRule::sgd);
  s.schedule.total_steps = 4, s.eval_every = 0, s.valid_data.clear();
  const MeshCase meshes[] = {{},
                             {.data = 2, .experts = 2},
                             {.data = 4, .zero = 1, .experts = 4},
                             {.stages = 2, .data = 4, .zero = 2, .experts = 2}};
  MemoryIo whole;
  s.sum_order.groups = 1;
  const TrainResult want = train_on(s, 1, whole);
  for (const MeshCase& before : meshes)
    for (const MeshCase& after : meshes) {
      if (before.experts == after.experts) continue;
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

TEST(TrainExperts, WhatIsNotRunIsRefusedByNameBeforeAnythingIsWritten) {
  const RunInputs inputs(false);
  write_mixture(inputs, kMixtral);
  const auto refusal = [&](const std::function<void(TrainSettings&)>& change, int experts, int ranks) -> std::string {
    TrainSettings s = short_expert_run(inputs, DType::f32);
    s.expert_ranks = experts, s.sum_order.groups = ranks;
    change(s);
    MemoryIo io;
    try {
      train_on(s, ranks, io);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      EXPECT_FALSE(io.stat("run"));
      return e.what();
    }
    return "run";
  };
  const auto same = [](TrainSettings&) {};
  EXPECT_NE(refusal([](TrainSettings& s) { s.batch = 12, s.sum_order.groups = 3; }, 3, 3)
                .find("--expert-parallel 3: the 8 experts of a layer cannot be shared out in equal parts; choose 2"),
            std::string::npos);
  EXPECT_NE(
      refusal([](TrainSettings& s) { s.tensor = 2, s.sum_order.groups = 2; }, 2, 4)
          .find("--expert-parallel 2: --tensor-parallel 2 does not share out mixtures yet; leave one of the two out"),
      std::string::npos);
  EXPECT_NE(refusal([](TrainSettings& s) { s.perturbation = 1e-3; }, 2, 2).find("--gradients zeroth-order"),
            std::string::npos);
  write_tiny_config(inputs.path, 2, false);
  EXPECT_NE(refusal(same, 2, 2).find("--expert-parallel 2: the model has no experts; leave --expert-parallel out"),
            std::string::npos);
}

}  // namespace
}  // namespace tern
