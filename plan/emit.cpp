#include "plan/emit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/shell.h"
#include "base/text.h"
#include "plan/framework_bytes.h"
#include "plan/layers.h"
#include "plan/pinned.h"
#include "spec/recompute.h"

namespace tern {
namespace {

struct Nodes {
  int64_t count = 1, devices = 1;  // of each
};
Nodes nodes_of(const OuterChoice& c, int64_t devices_of_node) {
  const int64_t group = c.mesh.tensor * c.mesh.context, D = c.devices();
  const int64_t of_node = group <= devices_of_node ? devices_of_node / group * group : devices_of_node;
  return D <= of_node ? Nodes{1, D} : Nodes{D / of_node, of_node};
}

// Flags in order, each with its words.
class Flags {
 public:
  template <class... Values>
  void add(std::string_view flag, const Values&... values) {
    words_.push_back(fmt::format("--{}", flag));
    (words_.push_back(fmt::format("{}", values)), ...);
  }
  std::vector<std::string> words_;
};

std::vector<std::string> torchrun(const Nodes& n) {
  std::vector<std::string> w{"torchrun", "--nnodes", fmt::format("{}", n.count), "--nproc-per-node",
                             fmt::format("{}", n.devices)};
  if (n.count > 1) w.insert(w.end(), {"--rdzv-backend", "c10d", "--rdzv-endpoint", "FIRST_NODE:29500"});
  return w;
}

void megatron_model(Flags& f, const ModelSpec& spec) {
  const AttentionSpec& a = first_attention(spec);
  f.add("num-layers", spec.layers), f.add("hidden-size", spec.width), f.add("num-attention-heads", a.heads);
  f.add("kv-channels", a.head_dim);
  if (a.kv_heads != a.heads) f.add("group-query-attention"), f.add("num-query-groups", a.kv_heads);
  const MlpSpec* mlp = nullptr;
  const MoeSpec* experts = nullptr;
  std::string sparse;  // "1" for each layer with experts
  for (const Unit& u : spec.units) {
    if (const MlpSpec* m = mlp_of(u)) mlp = mlp ? mlp : m, sparse += sparse.empty() ? "0" : ",0";
    if (const MoeSpec* m = moe_of(u)) experts = experts ? experts : m, sparse += sparse.empty() ? "1" : ",1";
  }
  f.add("ffn-hidden-size", mlp ? mlp->hidden : experts->hidden);
  if (mlp ? mlp->gated : experts->gated)
    f.add("swiglu");
  else if (mlp->activation == ActivationKind::gelu_tanh)
    f.add("openai-gelu");
  f.add("normalization", a.norm.kind == NormKind::rms ? "RMSNorm" : "LayerNorm");
  f.add("norm-epsilon", a.norm.epsilon);
  if (!a.out_bias) f.add("disable-bias-linear");
  if (a.qkv_bias && !a.out_bias) f.add("add-qkv-bias");
  if (a.head_norm == HeadNormKind::head) f.add("qk-layernorm");
  if (!spec.head().tied) f.add("untie-embeddings-and-output-weights");
  if (spec.turns()) {
    f.add("position-embedding-type", "rope"), f.add("rotary-base", static_cast<int64_t>(spec.rope.theta));
    if (spec.rope.rotary_dim != a.head_dim)
      f.add("rotary-percent", static_cast<double>(spec.rope.rotary_dim) / static_cast<double>(a.head_dim));
    if (spec.rope.kind == RopeKind::llama3) f.add("use-rope-scaling"), f.add("rope-scaling-factor", spec.rope.factor);
  } else {
    f.add("position-embedding-type", "learned_absolute");
  }
  f.add("vocab-size", spec.vocab), f.add("make-vocab-size-divisible-by", 1);
  if (!experts) return;
  f.add("num-experts", experts->experts), f.add("moe-ffn-hidden-size", experts->hidden);
  f.add("moe-router-topk", experts->top_k);
  if (!experts->normalized) f.add("moe-router-pre-softmax");
  if (experts->shared_hidden) f.add("moe-shared-expert-intermediate-size", experts->shared_hidden);
  if (mlp) f.add("moe-layer-freq", "[" + sparse + "]");
  f.add("moe-token-dispatcher-type", "alltoall"), f.add("moe-grouped-gemm");
}

EmittedPlan megatron(const ModelSpec& spec, const Plan& p, const LayerStrategy& s, const Nodes& nodes) {
  const OuterChoice& c = p.choice;
  const Mesh& m = c.mesh;
  Flags f;
  megatron_model(f, spec);
  f.add("seq-length", p.job.seq), f.add("max-position-embeddings", std::max(p.job.seq, spec.context));
  f.add("micro-batch-size", c.micro_batch), f.add("global-batch-size", p.job.batch);
  f.add("tensor-model-parallel-size", m.tensor);
  if (m.tensor > 1) f.add("sequence-parallel");
  if (m.tensor > 1 && p.job.tensor_overlap) f.add("tp-comm-overlap");
  f.add("context-parallel-size", m.context);
  if (m.context > 1) f.add("cp-comm-type", m.ulysses ? "a2a" : "p2p");
  f.add("pipeline-model-parallel-size", c.num_stages);
  if (c.chunks_per_stage > 1) f.add("num-virtual-stages-per-pipeline-rank", c.chunks_per_stage);
  const bool experts = std::any_of(spec.units.begin(), spec.units.end(), [](const Unit& u) { return moe_of(u); });
  if (experts) f.add("expert-model-parallel-size", m.expert), f.add("expert-tensor-parallel-size", m.expert_tensor);
  if (s.zero == 1) f.add("use-distributed-optimizer");
  if (s.zero >= 2)
    f.add("use-megatron-fsdp"), f.add("use-distributed-optimizer"),
        f.add("data-parallel-sharding-strategy", s.zero == 2 ? "optim_grads" : "optim_grads_params"),
        f.add("ckpt-format", "fsdp_dtensor"), f.add("no-gradient-accumulation-fusion");
  f.add("overlap-grad-reduce");
  if (s.zero == 1 || s.zero == 3) f.add("overlap-param-gather");
  if (s.recompute == Recompute::full)
    f.add("recompute-granularity", "full"), f.add("recompute-method", "uniform"), f.add("recompute-num-layers", 1);
  if (p.job.dtype != DType::f32) f.add(p.job.dtype == DType::bf16 ? "bf16" : "fp16");
  if (p.job.gradients == DType::bf16)
    f.add("grad-reduce-in-bf16");
  else if (size_of(p.job.dtype) == 2)
    f.add("accumulate-allreduce-grads-in-fp32");
  f.add("optimizer", p.job.optimizer == UpdateRule::adamw ? "adam" : "sgd");
  f.add("use-mcore-models"), f.add("transformer-impl", "transformer_engine");
  f.add("attention-dropout", 0), f.add("hidden-dropout", 0), f.add("lr", "1e-4"), f.add("train-iters", 20);
  f.add("mock-data"), f.add("tokenizer-type", "NullTokenizer");
  EmittedPlan out{.file = "train.sh", .command = torchrun(nodes)};
  out.command.emplace_back("pretrain_gpt.py");
  out.command.insert(out.command.end(), f.words_.begin(), f.words_.end());
  // Overlap of tensor parallel communication wants one connection, FSDP more.
  const std::string env = s.zero >= 2 ? "unset CUDA_DEVICE_MAX_CONNECTIONS" : "export CUDA_DEVICE_MAX_CONNECTIONS=1";
  out.text = script_of({env}, out.command);
  out.notes = {
      "--mock-data, NullTokenizer, --lr and --train-iters make it run for a measurement: put your own in place"};
  if (experts && p.job.capacity_factor > 1)
    out.notes.push_back(
        fmt::format("no expert drops rows; the plan made room for {} times an even share", p.job.capacity_factor));
  return out;
}

EmittedPlan torchtitan(const ModelSpec& spec, const Plan& p, const LayerStrategy& s, const Nodes& nodes) {
  const OuterChoice& c = p.choice;
  const Mesh& m = c.mesh;
  Flags f;
  const bool many = c.num_stages > 1;
  f.add("training.seq-len", p.job.seq), f.add("training.global-batch-size", p.job.batch);
  f.add("training.local-batch-size", many ? c.micro_batch * c.num_micro : c.micro_batch);
  f.add("training.mixed-precision-param", p.job.dtype == DType::bf16 ? "bfloat16" : "float32");
  f.add("training.mixed-precision-reduce", "float32");
  f.add("parallelism.tensor-parallel-degree", m.tensor), f.add("parallelism.context-parallel-degree", m.context);
  f.add("parallelism.data-parallel-replicate-degree", s.zero == 0 ? m.data : 1);
  f.add("parallelism.data-parallel-shard-degree", s.zero == 0 ? 1 : m.data);
  if (s.zero > 0) f.add("parallelism.fsdp-reshard-after-forward", s.zero == 3 ? "always" : "never");
  f.add("parallelism.pipeline-parallel-degree", c.num_stages);
  if (many) {
    f.add("training.disable-cuda-graphs");  // it has none in a pipeline
    f.add("parallelism.pipeline-parallel-schedule", traits_of(c.schedule).torchtitan);
    f.add("parallelism.pipeline-parallel-microbatch-size", c.micro_batch);
    f.add("parallelism.pipeline-parallel-first-stage-less-layers", 0);
    f.add("parallelism.pipeline-parallel-last-stage-less-layers", 0);
    f.add("parallelism.pipeline-parallel-layers-per-stage", spec.layers / (c.num_stages * c.chunks_per_stage));
  }
  EmittedPlan out{.file = "train.sh", .command = torchrun(nodes)};
  out.command.insert(out.command.end(), {"-m", "torchtitan.train"});
  const std::string model = torchtitan_model(spec);
  for (const std::string_view w : split(model, ' ')) out.command.emplace_back(w);
  out.command.insert(out.command.end(), f.words_.begin(), f.words_.end());
  out.command.emplace_back(s.recompute == Recompute::full ? "activation-checkpoint:full"
                                                          : "activation-checkpoint:none");
  out.text = script_of({}, out.command);
  out.notes = {"data and tokenizer are those of its configuration; give --hf-assets-path and --dataloader.dataset"};
  if (m.tensor > 1)
    out.notes.emplace_back(
        "with tensor parallelism the one run that was measured took 13 % more memory than is counted (F28 of "
        "docs/framework-memory.md)");
  return out;
}

EmittedPlan deepspeed(const ModelSpec&, const Plan& p, const LayerStrategy& s, const Nodes& nodes) {
  const OuterChoice& c = p.choice;
  Json zero{{"stage", s.zero}};
  if (s.zero > 0) zero["overlap_comm"] = true;
  if (s.states == Tier::host) zero["offload_optimizer"] = {{"device", "cpu"}, {"pin_memory", true}};
  Json json{
      {"train_batch_size", p.job.batch},
      {"train_micro_batch_size_per_gpu", c.micro_batch},
      {"gradient_accumulation_steps", c.num_micro},
      {"optimizer", {{"type", "AdamW"}, {"params", {{"lr", 1e-4}, {"betas", {0.9, 0.95}}, {"weight_decay", 0.1}}}}},
      {"zero_optimization", zero},
      {"data_types", {{"grad_accum_dtype", "fp32"}}}};
  if (p.job.dtype == DType::bf16) json["bf16"] = {{"enabled", true}};
  if (p.job.dtype == DType::f16) json["fp16"] = {{"enabled", true}};
  if (c.mesh.tensor > 1) json["tensor_parallel"] = {{"autotp_size", c.mesh.tensor}};
  EmittedPlan out{.file = "ds_config.json", .text = dump_json(json, 2) + "\n"};
  out.command = {"deepspeed",
                 "--num_nodes",
                 fmt::format("{}", nodes.count),
                 "--num_gpus",
                 fmt::format("{}", nodes.devices),
                 "YOUR_TRAIN.py",
                 "--deepspeed_config",
                 out.file};
  out.notes = {fmt::format("sequences of {} and recompute none are your script's to set", p.job.seq)};
  return out;
}

}  // namespace

std::string script_of(const std::vector<std::string>& environment, const std::vector<std::string>& command) {
  std::string text = "#!/bin/sh\nset -e\n";
  for (const std::string& e : environment) text += e + "\n";
  for (size_t i = 0; i < command.size(); ++i) {
    const bool flag = command[i].starts_with("--") || command[i].starts_with("activation-checkpoint:");
    if (i > 0) text += flag && i > 1 ? " \\\n  " : " ";
    text += shell_quoted(command[i]);
  }
  return text + "\n";
}

EmittedPlan emit_plan(Framework f, const ModelSpec& spec, const Plan& p, int64_t devices_of_node) {
  const auto refuse = [&](const std::string& why) { throw Error(ErrorKind::usage, "--emit {}", why); };
  if (std::string why = why_no_model(f, spec, p.job); !why.empty()) refuse(why);
  if (std::string why = why_not_run(f, p.job, p.choice, devices_of_node); !why.empty()) refuse(why);
  const LayerStrategy& s = p.layers.front().strategy;
  std::vector<int> stages;
  for (const PlannedLayers& l : p.layers) {
    if (!(l.strategy == s)) refuse(fmt::format("{}: one strategy for all layers", name_of(f)));
    stages.insert(stages.end(), static_cast<size_t>(l.count), l.stage);
  }
  const int virtual_stages = p.choice.num_stages * p.choice.chunks_per_stage;
  if (stages != even_stages(spec, layers_of(spec), virtual_stages))
    refuse(fmt::format("{}: blocks lie in equal numbers on the stages", name_of(f)));
  if (std::string why = why_not_run(f, p.choice, s); !why.empty()) refuse(why);
  const Nodes nodes = nodes_of(p.choice, devices_of_node);
  EmittedPlan out = f == Framework::megatron     ? megatron(spec, p, s, nodes)
                    : f == Framework::torchtitan ? torchtitan(spec, p, s, nodes)
                                                 : deepspeed(spec, p, s, nodes);
  out.notes.insert(
      out.notes.begin(),
      has_own_bytes(f)
          ? fmt::format("memory is counted as {} keeps weights and activations (docs/framework-memory.md "
                        "has published runs beside it); where it runs out all the same, plan with "
                        "--max-micro-batch 1, or --allow-recompute full",
                        f == Framework::megatron ? "Megatron-LM" : "TorchTitan")
          // M30 of docs/memory-figures.md: 106.95 of 63.02 MB.
          : "that it fits is by tern's own activations; what your model keeps depends on its code, and is "
            "more as a rule (docs/memory-figures.md, M30: 1.7 times as many bytes); where memory runs out, "
            "plan with --max-micro-batch 1, or --fix zero=3");
  const Mesh& m = p.choice.mesh;
  out.rank_order =
      fmt::format("rank = tensor + {}·(context + {}·(data + {}·stage)), nodes of {} devices filled one after another",
                  m.tensor, m.context, m.data, nodes.devices);
  return out;
}

}  // namespace tern
