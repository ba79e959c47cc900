// What frameworks keep, held to the formulas that their authors published.
#include "plan/framework_bytes.h"

#include <gtest/gtest.h>

#include "formats/hf/config.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "plan/cost_model.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// GPT-3's shapes, small: heads of 64, hidden 4 times the width.
constexpr int64_t kWidth = 768, kHeads = 12, kSeq = 256, kBatch = 3;
ModelSpec gpt() {
  return model_spec(parse_hf_config(
      R"({"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 768, "n_layer": 2, "n_head": 12,
        "n_positions": 256, "vocab_size": 1024, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new"})",
      "gpt"));
}
CostQuery query_of(int64_t tensor) {
  return {.tokens = kBatch * kSeq,
          .attended_pairs = kBatch * kSeq * (kSeq + 1) / 2,
          .dtype = DType::bf16,
          .scratch = {},
          .tensor = tensor};
}
// What a block holds, inputs of both its parts too.
int64_t block(int64_t tensor, const FrameworkRun& run) {
  const ModelSpec spec = gpt();
  int64_t held = 0, input = framework_unit(Framework::megatron, spec.units[0], query_of(tensor), run).output;
  for (int u : {1, 2}) {
    const FrameworkUnit unit =
        framework_unit(Framework::megatron, spec.units[static_cast<size_t>(u)], query_of(tensor), run);
    held += input + unit.saved, input = unit.output;
  }
  return held;
}

// Korthikanti et al. 2022, arXiv:2205.05198, table 2: s·b·h·(34 + 5·a·s/h), s·b·h·(10 + 24/t + 5·a·s/(h·t)), and
// s·b·h/t·(34 + 5·a·s/h); where scores are made again (or never kept) without the second term.
TEST(FrameworkBytes, MegatronsBlockIsThatOfItsPaper) {
  const int64_t sbh = kSeq * kBatch * kWidth, scores = 5 * kHeads * kSeq * kSeq * kBatch;
  const auto row_sums = [](int64_t t) {
    return 4 * kBatch * kSeq * kHeads / t;
  };  // of fused attention, not in the paper
  for (const int64_t t : {1, 2, 4}) {
    FrameworkRun run{.dropout = true};
    EXPECT_EQ(block(t, run), 34 * sbh / t + row_sums(t)) << t;
    run.sequence_parallel = false;
    EXPECT_EQ(block(t, run), 10 * sbh + 24 * sbh / t + row_sums(t)) << t;
    run.fused_attention = false;
    // The paper keeps the whole square of scores; ours is 2·s·(s + 1)/2 of it.
    EXPECT_EQ(block(t, run), 10 * sbh + 24 * sbh / t + scores / t / kSeq * (kSeq + 1)) << t;
  }
}

TEST(FrameworkBytes, WhatIsEmittedHasNoDropout) {
  const int64_t sbh = kSeq * kBatch * kWidth;
  EXPECT_EQ(block(1, {}), 32 * sbh + 4 * kBatch * kSeq * kHeads);
}

// Megatron-LM and TorchTitan make a layer again from its input: s·b·h·2 of it are held.
TEST(FrameworkBytes, FullRecomputationHoldsTheInputOfALayerAlone) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Machine machine = machine_of(find_cluster("h100"), 0);
  const TrainJob job{.batch = 8, .seq = 4096};
  for (const Framework f : {Framework::megatron, Framework::torchtitan}) {
    const LayerCosts costs(spec, job, machine, {.data = 8}, 1, false, f);
    const Layer block = layers_of(spec)[1];
    const CostVector none = costs.cost(block, {}, false),
                     full = costs.cost(block, {.recompute = Recompute::full}, false);
    EXPECT_EQ(full.held[0], 2 * 4096 * 4096) << name_of(f);
    EXPECT_GT(none.held[0], 12 * full.held[0]) << name_of(f);
    // What is made again is there while the layer works.
    EXPECT_EQ(none.held[0] + none.transient, full.held[0] + full.transient) << name_of(f);
    EXPECT_EQ(full.recompute, none.forward) << name_of(f);
  }
}

// DeepSpeed's is the user's own model: tern's bytes, as without a framework.
TEST(FrameworkBytes, WithoutFormulasTheyAreOurs) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Machine machine = machine_of(find_cluster("h100"), 0);
  const TrainJob job{.batch = 8, .seq = 4096};
  const Layer block = layers_of(spec)[1];
  const auto cost = [&](std::optional<Framework> f) {
    return LayerCosts(spec, job, machine, {.data = 8}, 1, false, f).cost(block, {.zero = 3}, false);
  };
  EXPECT_EQ(cost(Framework::deepspeed), cost({}));
  EXPECT_GT(cost(Framework::megatron).held[0], cost({}).held[0]);
}

// FSDP's sharded weights are its f32 masters: 16 bytes a parameter in all, where Megatron-LM has 18.
TEST(FrameworkBytes, TorchtitanHasNoSecondMaster) {
  const ModelSpec spec = *preset_model("llama-3-8b");
  const Machine machine = machine_of(find_cluster("h100"), 0);
  const TrainJob job{.batch = 8, .seq = 4096};
  double bytes[2]{};
  for (const Layer& layer : layers_of(spec))
    for (const Framework f : {Framework::megatron, Framework::torchtitan})
      bytes[f == Framework::torchtitan] += static_cast<double>(
          LayerCosts(spec, job, machine, {.data = 8}, 1, false, f).cost(layer, {.zero = 3}, false).persistent[0]);
  const auto parameters = static_cast<double>(num_parameters(spec));
  EXPECT_NEAR(bytes[0] * 8 / parameters, 18, 0.01);
  EXPECT_NEAR(bytes[1] * 8 / parameters, 16, 0.01);
}

}  // namespace
}  // namespace tern
