// What is written for other frameworks. Their own parsers judge it in dev/emit/check_*.py; here what follows from a
// plan is in it, and what they have not is refused.
#include "plan/emit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/json.h"
#include "base/shell_testing.h"
#include "plan/emit_serving.h"
#include "plan/layers.h"
#include "plan/pinned.h"
#include "spec/presets.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// A plan as the search under for_framework makes it: even stages, one strategy.
Plan even_plan_of(const ModelSpec& spec, const OuterChoice& c, const LayerStrategy& s) {
  Plan p;
  p.choice = c;
  p.job = {.batch = c.mesh.data * c.micro_batch * c.num_micro, .seq = 4096};
  const std::vector<int> stages = even_stages(spec, layers_of(spec), c.num_stages * c.chunks_per_stage);
  for (int u = 0; u < static_cast<int>(stages.size()); ++u)
    p.layers.push_back({u, 1, stages[static_cast<size_t>(u)], s});
  return p;
}

std::string value_of(const EmittedPlan& e, const std::string& flag) {
  const auto at = std::find(e.command.begin(), e.command.end(), "--" + flag);
  return at == e.command.end() ? "(none)" : at + 1 == e.command.end() ? "" : *(at + 1);
}

std::string refusal(Framework f, const ModelSpec& spec, const Plan& p, int64_t node = 8) {
  try {
    emit_plan(f, spec, p, node);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    return e.what();
  }
  return "";
}

const ModelSpec& llama() {
  static const ModelSpec spec = *preset_model("llama-3-8b");
  return spec;
}

TEST(EmitMegatron, RotaryPositionsArePresetsOwn) {
  EXPECT_EQ(value_of(emit_plan(Framework::megatron, llama(),
                               even_plan_of(llama(), {.mesh = {.data = 8}, .num_micro = 2}, {.zero = 1}), 8),
                     "rotary-base"),
            "500000");
}

TEST(Emit, EveryFrameworkSaysWhoseBytesThePlanCounts) {
  for (const Framework f : kFrameworks) {
    const EmittedPlan e =
        emit_plan(f, llama(), even_plan_of(llama(), {.mesh = {.data = 8}, .num_micro = 2}, {.zero = 2}), 8);
    const char* words = f == Framework::megatron     ? "as Megatron-LM keeps"
                        : f == Framework::torchtitan ? "as TorchTitan keeps"
                                                     : "1.7 times as many bytes";
    EXPECT_NE(e.notes.front().find(words), std::string::npos) << name_of(f);
  }
}

// Megatron-LM's core_attn is the scores and their sum: less than the unit that `recompute attention` makes again.
TEST(EmitMegatron, TheWholeAttentionUnitIsNotItsCoreAttention) {
  const Plan p = even_plan_of(llama(), {.mesh = {.data = 8}, .num_micro = 2}, {.recompute = Recompute::attention});
  EXPECT_NE(refusal(Framework::megatron, llama(), p).find("core_attn"), std::string::npos);
}

TEST(EmitMegatron, EveryAxisHasItsFlag) {
  const OuterChoice c{.mesh = {.tensor = 4, .context = 2, .data = 2},
                      .num_stages = 2,
                      .chunks_per_stage = 4,
                      .schedule = PipelineSchedule::interleaved,
                      .micro_batch = 3,
                      .num_micro = 8};
  const EmittedPlan e =
      emit_plan(Framework::megatron, llama(), even_plan_of(llama(), c, {.zero = 1, .recompute = Recompute::full}), 8);
  for (const auto& [flag, value] :
       std::vector<std::pair<std::string, std::string>>{{"tensor-model-parallel-size", "4"},
                                                        {"context-parallel-size", "2"},
                                                        {"cp-comm-type", "p2p"},
                                                        {"pipeline-model-parallel-size", "2"},
                                                        {"num-virtual-stages-per-pipeline-rank", "4"},
                                                        {"micro-batch-size", "3"},
                                                        {"global-batch-size", "48"},
                                                        {"recompute-granularity", "full"},
                                                        {"nnodes", "4"},
                                                        {"nproc-per-node", "8"},
                                                        {"num-layers", "32"},
                                                        {"num-query-groups", "8"},
                                                        {"vocab-size", "128256"}})
    EXPECT_EQ(value_of(e, flag), value) << flag;
  EXPECT_NE(value_of(e, "use-distributed-optimizer"), "(none)");
  EXPECT_NE(value_of(e, "sequence-parallel"), "(none)");
  EXPECT_EQ(value_of(e, "use-megatron-fsdp"), "(none)");
  EXPECT_EQ(e.rank_order,
            "rank = tensor + 4·(context + 2·(data + 2·stage)), nodes of 8 devices filled one after another");
  EXPECT_EQ(e.text.rfind("#!/bin/sh\n", 0), 0u);
}

TEST(EmitMegatron, ExchangesBesideProductsAreAskedForInTensorGroups) {
  for (const auto& [tensor, overlap] : {std::pair{2, true}, {2, false}, {1, true}}) {
    Plan p = even_plan_of(llama(), {.mesh = {.tensor = tensor, .data = 4}, .num_micro = 2}, {.zero = 1});
    p.job.tensor_overlap = overlap;
    EXPECT_EQ(value_of(emit_plan(Framework::megatron, llama(), p, 8), "tp-comm-overlap") != "(none)",
              tensor == 2 && overlap);
  }
  for (const Framework f : {Framework::torchtitan, Framework::deepspeed})
    EXPECT_NE(why_no_model(f, llama(), {.seq = 4096, .tensor_overlap = true}).find("has not --tp-comm-overlap"),
              std::string::npos)
        << name_of(f);
}

// f32 gradients of 16-bit weights are asked for by name: f16 keeps its own without.
TEST(EmitMegatron, GradientsAreKeptAsThePlanCountsThem) {
  Plan p = even_plan_of(llama(), {.mesh = {.data = 8}, .num_micro = 2}, {.zero = 1});
  for (const auto& [dtype, gradients, f32, bf16] :
       std::vector<std::tuple<DType, DType, bool, bool>>{{DType::bf16, DType::f32, true, false},
                                                         {DType::bf16, DType::bf16, false, true},
                                                         {DType::f16, DType::f32, true, false},
                                                         {DType::f32, DType::f32, false, false}}) {
    p.job.dtype = dtype, p.job.gradients = gradients;
    const EmittedPlan e = emit_plan(Framework::megatron, llama(), p, 8);
    EXPECT_EQ(value_of(e, "accumulate-allreduce-grads-in-fp32") != "(none)", f32) << name_of(dtype);
    EXPECT_EQ(value_of(e, "grad-reduce-in-bf16") != "(none)", bf16) << name_of(dtype);
  }
}

TEST(EmitTorchtitan, LocalBatchIsAMicroBatchOrThePipelines) {
  const Plan whole =
      even_plan_of(llama(), {.mesh = {.tensor = 2, .data = 4}, .micro_batch = 2, .num_micro = 4}, {.zero = 3});
  const EmittedPlan e = emit_plan(Framework::torchtitan, llama(), whole, 8);
  EXPECT_EQ(value_of(e, "training.local-batch-size"), "2") << "gradients accumulate up to the global batch";
  EXPECT_EQ(value_of(e, "training.global-batch-size"), "32");
  EXPECT_EQ(value_of(e, "parallelism.data-parallel-shard-degree"), "4");
  EXPECT_EQ(value_of(e, "parallelism.fsdp-reshard-after-forward"), "always");
  EXPECT_EQ(value_of(e, "config"), "llama3_8b");
  const Plan staged = even_plan_of(
      llama(), {.mesh = {.tensor = 2, .data = 1}, .num_stages = 4, .micro_batch = 2, .num_micro = 8}, {.zero = 0});
  const EmittedPlan s = emit_plan(Framework::torchtitan, llama(), staged, 8);
  EXPECT_EQ(value_of(s, "training.local-batch-size"), "16") << "all micro-batches of the pipeline";
  EXPECT_EQ(value_of(s, "parallelism.pipeline-parallel-microbatch-size"), "2");
  EXPECT_EQ(value_of(s, "parallelism.pipeline-parallel-layers-per-stage"), "8");
}

TEST(EmitDeepspeed, TheFileHasTheBatchTheStageAndTheOffload) {
  const Plan p =
      even_plan_of(llama(), {.mesh = {.data = 8}, .micro_batch = 2, .num_micro = 4}, {.zero = 2, .states = Tier::host});
  const Json j = parse_json(emit_plan(Framework::deepspeed, llama(), p, 8).text, "ds_config.json");
  EXPECT_EQ(j["train_batch_size"], 64);
  EXPECT_EQ(j["gradient_accumulation_steps"], 4);
  EXPECT_EQ(j["zero_optimization"]["stage"], 2);
  EXPECT_EQ(j["zero_optimization"]["offload_optimizer"]["device"], "cpu");
  EXPECT_TRUE(j["bf16"]["enabled"].get<bool>());
}

TEST(EmitVllm, TheLayoutUsersAndLengthsAreItsFlagsAndTheRestIsRefused) {
  const InferenceJob job{.prompt = 1000, .answer = 24};
  ServingPlan p;
  p.decode.layout = {.tensor = 4, .stages = 2}, p.decode.copies = 3, p.decode.users = 17;
  const DeviceType device{.memory_bytes = 80'000'000'000, .reserved_bytes = 3'000'000'000};
  const EmittedPlan e = emit_serving("model", job, p, device, 8);
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{{"tensor-parallel-size", "4"},
                                                                                    {"pipeline-parallel-size", "2"},
                                                                                    {"data-parallel-size", "3"},
                                                                                    {"max-model-len", "1024"},
                                                                                    {"max-num-seqs", "17"},
                                                                                    {"gpu-memory-utilization", "0.96"},
                                                                                    {"dtype", "bfloat16"}})
    EXPECT_EQ(value_of(e, flag), value) << flag;
  EXPECT_EQ(value_of(e, "distributed-executor-backend"), "(none)") << "a copy lies within a node";
  InferenceJob quantized = job;
  quantized.kv = KvType::q8;
  EXPECT_THROW(emit_serving("model", quantized, p, device, 8), Error);
  p.split = true;
  EXPECT_THROW(emit_serving("model", job, p, device, 8), Error);
  p.split = false, p.decode.memory.weights_on = {0, 1, 0};
  EXPECT_THROW(emit_serving("model", job, p, device, 8), Error);
}

// Copies of four devices on nodes of eight; then copies of eight on nodes of four.
TEST(EmitVllm, CopiesOnSeveralNodesAreStartedNodeByNodeOrByRay) {
  const InferenceJob job{.prompt = 1000, .answer = 24};
  ServingPlan p;
  p.decode.layout = {.tensor = 4}, p.decode.copies = 2, p.decode.users = 17;
  const DeviceType device{.memory_bytes = 80'000'000'000, .reserved_bytes = 3'000'000'000};
  const auto on = [&](int64_t devices) { return emit_serving("model", job, p, device, devices); };
  const auto notes = [](const EmittedPlan& e) {
    std::string all;
    for (const std::string& n : e.notes) all += n + "\n";
    return all;
  };
  EXPECT_EQ(value_of(on(8), "data-parallel-size-local"), "(none)") << "both on one node";
  p.decode.copies = 5;
  const EmittedPlan e = on(8);
  EXPECT_EQ(value_of(e, "data-parallel-size"), "5");
  EXPECT_EQ(value_of(e, "data-parallel-size-local"), "2");
  EXPECT_EQ(value_of(e, "data-parallel-address"), "FIRST_NODE");
  EXPECT_EQ(value_of(e, "data-parallel-backend"), "(none)");
  EXPECT_NE(notes(e).find("the first of 3 nodes; on node K = 1 … 2"), std::string::npos) << notes(e);
  EXPECT_NE(notes(e).find("--data-parallel-start-rank 2·K, on the last --data-parallel-size-local 1"),
            std::string::npos)
      << notes(e);
  p.decode.copies = 4;
  EXPECT_NE(notes(on(8)).find("on the second the same command with --headless and --data-parallel-start-rank 2\n"),
            std::string::npos)
      << notes(on(8));
  p.decode.layout = {.tensor = 4, .stages = 2}, p.decode.copies = 1;
  EXPECT_EQ(value_of(on(4), "distributed-executor-backend"), "ray");
  EXPECT_EQ(value_of(on(4), "data-parallel-backend"), "(none)") << "one copy";
  p.decode.copies = 3;
  EXPECT_EQ(value_of(on(4), "data-parallel-backend"), "ray");
  EXPECT_EQ(value_of(on(4), "data-parallel-size-local"), "(none)");
  EXPECT_NE(on(4).text.find("export VLLM_RAY_DP_PACK_STRATEGY=span\n"), std::string::npos) << on(4).text;
  EXPECT_THROW(on(6), Error) << "copies of eight on nodes of six";
}

// What a shell reads of a script is what was asked, word by word.
TEST(EmitPlan, EachWordOfAScriptIsOneWordOfTheShell) {
  const std::vector<std::string> words{"printf", "%s|", "my model; touch PWNED", "--flag", "[0,1]", "it's", "$HOME",
                                       "",       "a\nb"};
  const Outcome o = run_shell(script_of({}, words));
  EXPECT_EQ(o.code, 0);
  EXPECT_EQ(o.text, "my model; touch PWNED|--flag|[0,1]|it's|$HOME||a\nb|");
  ServingPlan p;
  p.decode.copies = 1;
  const EmittedPlan e = emit_serving("my model; touch PWNED", {}, p, {.memory_bytes = 2, .reserved_bytes = 1}, 8);
  EXPECT_NE(e.text.find("\nvllm serve 'my model; touch PWNED' \\\n"), std::string::npos) << e.text;
}

// Twin: every length up to twice the least that both axes divide.
TEST(EmitPlan, SequencesThatTheGroupsDoNotDivideAreRefused) {
  for (const Framework f : {Framework::megatron, Framework::torchtitan})
    for (const int64_t tensor : {1, 2, 3, 8})
      for (const int64_t context : {1, 2, 3, 4})
        for (int64_t seq = 1; seq <= 128; ++seq) {
          const bool ring = context == 1 || seq % (2 * context) == 0;  // two pieces for each rank
          const int64_t part = f == Framework::torchtitan && context > 1 ? seq / (2 * context) : seq / context;
          const bool runs = seq % context == 0 && ring && part % tensor == 0;
          const OuterChoice c{.mesh = {.tensor = tensor, .context = context}};
          ASSERT_EQ(why_not_run(f, {.seq = seq}, c, 64).empty(), runs)
              << name_of(f) << " tp " << tensor << " cp " << context << " seq " << seq;
        }
  EXPECT_EQ(why_not_run(Framework::megatron, {.seq = 4095}, {.mesh = {.tensor = 2}}, 8),
            "megatron: --seq 4095 is no multiple of 2, which it asks with tp 2 and cp 1");
  EXPECT_EQ(why_not_run(Framework::deepspeed, {.seq = 4095}, {.mesh = {.tensor = 2}}, 8), "") << "whole sequences";
}

TEST(EmitPlan, WhatAFrameworkHasNotIsRefusedByName) {
  const OuterChoice eight{.mesh = {.data = 8}, .num_micro = 2};
  const auto says = [&](Framework f, const ModelSpec& spec, const Plan& p, const char* words) {
    const std::string said = refusal(f, spec, p);
    EXPECT_NE(said.find(words), std::string::npos) << words << ": " << said;
  };
  const OuterChoice pipeline{.mesh = {.data = 2}, .num_stages = 4, .schedule = PipelineSchedule::zb_h1, .num_micro = 8};
  says(Framework::megatron, llama(), even_plan_of(llama(), pipeline, {}), "no schedule zb-h1");
  says(Framework::torchtitan, llama(), even_plan_of(llama(), pipeline, {}), "no schedule zb-h1");
  says(Framework::deepspeed, llama(), even_plan_of(llama(), pipeline, {}), "no pipeline in its file");
  says(Framework::torchtitan, llama(), even_plan_of(llama(), eight, {.zero = 1}), "no ZeRO 1");
  says(Framework::deepspeed, llama(), even_plan_of(llama(), eight, {.recompute = Recompute::full}), "no recomputation");
  says(Framework::megatron, llama(), even_plan_of(llama(), eight, {.states = Tier::host}), "no states off the device");
  Plan mixed = even_plan_of(llama(), eight, {});
  mixed.layers.back().strategy.zero = 1;
  says(Framework::megatron, llama(), mixed, "one strategy for all layers");
  Plan uneven = even_plan_of(llama(), {.mesh = {.data = 4}, .num_stages = 2, .num_micro = 4}, {});
  uneven.layers[16].stage = 1;
  says(Framework::megatron, llama(), uneven, "equal numbers");
  const ModelSpec t5 = *preset_model("t5-large"), other = *preset_model("mistral-7b");
  Plan any;
  any.layers.push_back({});
  says(Framework::megatron, t5, any, "an encoder beside its decoder");
  says(Framework::torchtitan, other, any, "this model");
  says(Framework::megatron, with_adapters(llama(), 8), any, "adapters");
  Plan half = even_plan_of(llama(), eight, {});
  half.job.dtype = DType::f64;
  says(Framework::megatron, llama(), half, "f64");
  // Three groups of four fill a node and a half.
  const OuterChoice odd{.mesh = {.tensor = 4, .data = 3}, .num_micro = 2};
  says(Framework::megatron, llama(), even_plan_of(llama(), odd, {}), "no multiple of 8 in a node");
}

}  // namespace
}  // namespace tern
