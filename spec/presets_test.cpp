#include "spec/presets.h"

#include <gtest/gtest.h>

#include "spec/attended_pairs.h"
#include "spec/unit_cost.h"
#include "spec/unit_products.h"

namespace tern {
namespace {

// Source: the parameter counts the publishers' files add up to (transformers' num_parameters; T5 counts the shared
// table once).
TEST(Presets, ParameterCountsAreThePublishedOnes) {
  const auto count = [](std::string_view name) { return num_parameters(*preset_model(name)); };
  EXPECT_EQ(count("gpt2"), 124439808);
  EXPECT_EQ(count("gpt2-xl"), 1557611200);
  EXPECT_EQ(count("llama-2-7b"), 6738415616);
  EXPECT_EQ(count("llama-2-70b"), 68976648192);
  EXPECT_EQ(count("llama-3-8b"), 8030261248);
  EXPECT_EQ(count("llama-3-70b"), 70553706496);
  EXPECT_EQ(count("llama-3-405b"), 405853388800);
  EXPECT_EQ(count("llama-3.1-8b"), 8030261248);
  EXPECT_EQ(count("llama-3.1-405b"), 405853388800);
  EXPECT_EQ(count("llama-3.2-1b"), 1235814400);
  EXPECT_EQ(count("llama-3.2-3b"), 3212749824);
  EXPECT_EQ(count("llama-3.3-70b"), 70553706496);
  EXPECT_EQ(count("qwen-2.5-0.5b"), 494032768);
  EXPECT_EQ(count("qwen-2.5-7b"), 7615616512);
  EXPECT_EQ(count("qwen-2.5-14b"), 14770033664);
  EXPECT_EQ(count("qwen-2.5-32b"), 32763876352);
  EXPECT_EQ(count("qwen-2.5-72b"), 72706203648);
  EXPECT_EQ(count("qwen-3-0.6b"), 596049920);
  EXPECT_EQ(count("qwen-3-8b"), 8190735360);
  EXPECT_EQ(count("qwen-3-14b"), 14768307200);
  EXPECT_EQ(count("qwen-3-32b"), 32762123264);
  EXPECT_EQ(count("qwen-3-30b-a3b"), 30532122624);
  EXPECT_EQ(count("qwen-3-235b-a22b"), 235093634560);
  EXPECT_EQ(count("gemma-2-2b"), 2614341888);
  EXPECT_EQ(count("gemma-2-9b"), 9241705984);
  EXPECT_EQ(count("gemma-2-27b"), 27227128320);
  EXPECT_EQ(count("gemma-3-1b"), 999885952);
  EXPECT_EQ(count("deepseek-v3"), 671026404352);
  EXPECT_EQ(count("smollm3-3b"), 3075098624);
  EXPECT_EQ(count("mistral-7b"), 7241732096);
  EXPECT_EQ(count("mixtral-8x7b"), 46702792704);
  EXPECT_EQ(count("t5-small"), 60506624);
  EXPECT_EQ(count("t5-large"), 737668096);
  EXPECT_EQ(count("t5-11b"), 11307321344);
  EXPECT_EQ(count("t5-v1.1-xl"), 2849757184);
}

TEST(Presets, NamesIgnoreCaseAndUnknownOnesAreNone) {
  for (const std::string_view name : preset_names()) EXPECT_TRUE(preset_model(name)) << name;
  EXPECT_TRUE(preset_model("Llama-2-7B"));
  EXPECT_FALSE(preset_model("llama-2-8b"));
}

// Source: rope_theta and rope_scaling of the published config.json; Mistral's of the model without a window.
TEST(Presets, RotaryBasesAreThePublishedOnes) {
  for (const auto& [name, theta] : std::vector<std::pair<std::string_view, double>>{{"llama-2-7b", 10000},
                                                                                    {"llama-2-13b", 10000},
                                                                                    {"llama-2-70b", 10000},
                                                                                    {"llama-3-8b", 500000},
                                                                                    {"llama-3-70b", 500000},
                                                                                    {"llama-3-405b", 500000},
                                                                                    {"mistral-7b", 1000000},
                                                                                    {"mixtral-8x7b", 1000000},
                                                                                    {"mixtral-8x22b", 1000000}})
    EXPECT_EQ(preset_model(name)->rope.theta, theta) << name;
  const RopeSpec scaled = preset_model("llama-3-405b")->rope;
  EXPECT_EQ(scaled.kind, RopeKind::llama3);
  EXPECT_EQ(scaled.factor, 8);
  EXPECT_EQ(scaled.original_context, 8192);
  EXPECT_EQ(preset_model("llama-3-8b")->rope.kind, RopeKind::standard);
  EXPECT_FALSE(preset_model("gpt2")->turns());
}

TEST(TensorSplit, OneRankIsTheWholeAndRanksTogetherHoldIt) {
  for (const char* name : {"llama-3-8b", "gpt2-xl", "t5-large"}) {
    const ModelSpec m = *preset_model(name);
    for (const Unit& unit : m.units) {
      CostQuery q{.tokens = 512, .attended_pairs = 512 * 513 / 2, .dtype = DType::bf16};
      const UnitCost whole = unit_cost(unit, q);
      q.tensor = std::string_view(name) == "gpt2-xl" ? 5 : 4;  // 25 heads
      const UnitCost part = unit_cost(unit, q);
      EXPECT_GE(part.parameters * q.tensor, whole.parameters);
      EXPECT_GE(part.saved_bytes * q.tensor, whole.saved_bytes);
      EXPECT_LE(part.saved_bytes * q.tensor, whole.saved_bytes + 4096 * q.tensor);
      if (unit.layer >= 0) {
        EXPECT_EQ(part.forward_flops * q.tensor, whole.forward_flops);
        EXPECT_EQ(part.backward_input_flops * q.tensor, whole.backward_input_flops);
        EXPECT_LE(part.parameters * q.tensor, whole.parameters + q.tensor * 4 * m.width);
      }
    }
  }
}

TEST(TensorSplit, FewerKeyHeadsThanRanksAreRepeated) {
  const ModelSpec m = *preset_model("llama-3-8b");  // 8 of them
  const CostQuery q{.tokens = 64, .attended_pairs = 64 * 65 / 2, .dtype = DType::bf16, .tensor = 16};
  const UnitCost part = unit_cost(m.units[1], q);
  EXPECT_EQ(part.parameters, 4096 + (2 + 2) * 128 * 4096 + 4096 * 2 * 128);  // 2 heads, 1 key head, 1 value head
}

// Twin: sums over kernels of what unit_cost states as one number.
TEST(Products, AddUpToTheForwardFlops) {
  for (const char* name : {"llama-3-8b", "gpt2", "mixtral-8x7b", "t5-large"})
    for (const int64_t tensor : {1, 2, 4}) {
      ModelSpec m = with_adapters(*preset_model(name), tensor == 2 ? 8 : 0);
      for (Unit& unit : m.units)
        for (ModuleAdapter& a : unit.adapters) a.pool = 4, a.repeat = 2;
      for (const Unit& unit : m.units) {
        const CostQuery q{.tokens = 256, .dtype = DType::bf16, .tensor = tensor, .expert = tensor};
        int64_t sum = 0;
        for (const MatrixProduct& p : unit_products(unit, q)) sum += 2 * p.m * p.n * p.k * p.count;
        const bool head = std::holds_alternative<HeadSpec>(unit.spec);
        const int products = !head ? 1 : unit.frozen ? 2 : 3;  // the head takes gradients with its loss
        EXPECT_EQ(sum * products, unit_cost(unit, q).forward_flops) << name << " " << unit.spec.index();
      }
    }
}

TEST(Experts, SplitOverRanksTheyAreAsManyTogether) {
  const ModelSpec m = *preset_model("mixtral-8x7b");
  const Unit& moe = m.units[2];
  const CostQuery one{.tokens = 1024, .dtype = DType::bf16};
  CostQuery eight = one;
  eight.expert = 8;
  const UnitCost whole = unit_cost(moe, one), part = unit_cost(moe, eight);
  EXPECT_EQ(part.expert_parameters * 8, whole.expert_parameters);
  EXPECT_EQ(part.parameters - part.expert_parameters, whole.parameters - whole.expert_parameters);
  EXPECT_EQ(part.forward_flops, whole.forward_flops);  // each rank sends its rows out and gets as many
  EXPECT_EQ(expert_rows(std::get<MoeSpec>(moe.spec), eight), 2048);
  eight.capacity_factor = 1.25;
  EXPECT_EQ(expert_rows(std::get<MoeSpec>(moe.spec), eight), 2560);
  EXPECT_EQ(unit_cost(moe, eight).saved_bytes - part.saved_bytes, 512 * (4096 + 2 * 14336) * 2);
}

TEST(Experts, SplitLikeTheRestTheyDoTheSameWork) {
  const ModelSpec m = *preset_model("mixtral-8x7b");
  CostQuery folded{.tokens = 1024, .dtype = DType::bf16, .tensor = 4, .expert = 2, .expert_tensor = 1};
  CostQuery split = folded;
  split.expert_tensor = 4;
  const UnitCost a = unit_cost(m.units[2], folded), b = unit_cost(m.units[2], split);
  EXPECT_EQ(a.forward_flops, b.forward_flops);
  EXPECT_EQ(a.expert_parameters, 4 * b.expert_parameters);
}

TEST(Adapters, FrozenUnitsTrainTheAdaptersAlone) {
  const ModelSpec full = *preset_model("llama-2-7b"), lora = with_adapters(full, 16), frozen = with_adapters(full, 0);
  int64_t trained = 0;
  for (const Unit& unit : lora.units) trained += unit_cost(unit, {}).trained;
  // Per layer: q, k, v and out (4096 + 4096)·16 each, gate and up (11008 + 4096)·16 each, down (4096 + 11008)·16: as
  // PEFT counts them.
  EXPECT_EQ(trained, 32 * 16 * (4 * 8192 + 3 * 15104));
  EXPECT_EQ(num_parameters(lora), num_parameters(full) + trained);
  // Q-BLoRA of twice the rank has as many; QA-BLoRA r(in/64 + out/2).
  const auto trained_with = [&](int64_t rank, int64_t pool, int64_t repeat) {
    int64_t sum = 0;
    for (Unit unit : with_adapters(full, rank).units) {
      for (ModuleAdapter& a : unit.adapters) a.pool = pool, a.repeat = repeat;
      sum += unit_cost(unit, {}).trained;
    }
    return sum;
  };
  EXPECT_EQ(trained_with(32, 2, 2), trained);
  EXPECT_EQ(trained_with(16, 64, 2), 32 * 16 * (4 * (64 + 2048) + 2 * (64 + 5504) + (172 + 2048)));
  const CostQuery q{.tokens = 64, .dtype = DType::bf16};
  const UnitCost cold = unit_cost(frozen.units[2], q), warm = unit_cost(full.units[2], q);
  EXPECT_EQ(cold.trained, 0);
  EXPECT_EQ(cold.gradient_bytes, 0);
  EXPECT_EQ(cold.left_bytes, 0);
  EXPECT_EQ(cold.backward_input_workspace, warm.backward_input_workspace + warm.left_bytes);
  EXPECT_EQ(cold.backward_weight_flops, 0);
  EXPECT_EQ(cold.backward_input_flops, warm.backward_input_flops);
}

TEST(AttendedPairs, EncodersSeeEverything) {
  const ModelSpec m = *preset_model("t5-small");
  EXPECT_EQ(attended_pairs(std::get<AttentionSpec>(m.units[1].spec), 100), 10000);
  EXPECT_EQ(attended_pairs(std::get<AttentionSpec>(m.units[14].spec), 100), 5050);
  EXPECT_EQ(attended_pairs(std::get<AttentionSpec>(m.units[15].spec), 100), 10000);
}

}  // namespace
}  // namespace tern
