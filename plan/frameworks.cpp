#include "plan/frameworks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/text.h"
#include "spec/recompute.h"

namespace tern {
namespace {

std::string no_model_words(const ModelSpec& spec) {
  for (const Unit& u : spec.units)
    if (std::holds_alternative<BridgeSpec>(u.spec)) return "an encoder beside its decoder";
  for (const Unit& u : spec.units) {
    if (std::holds_alternative<ParallelSpec>(u.spec)) return "attention and MLP beside each other";
    if (u.frozen || !u.adapters.empty()) return "adapters";
    const AttentionSpec* a = attention_of(u);
    if (!a) continue;
    if (!a->causal) return "attention to both sides";
    if (a->cross) return "cross attention";
  }
  return "";
}

// What Megatron's GPT has no flag for, or none that is emitted here.
std::string beyond_megatron(const ModelSpec& spec) {
  if (spec.embed().multiplier != 1 || spec.head().multiplier != 1) return "multipliers of embedding or logits";
  if (spec.embed().norm.present() || spec.embed().token_types) return "a norm or segments in the embedding";
  if (spec.head().softcap != 0) return "soft caps";
  if (spec.rope.kind != RopeKind::none && spec.rope.kind != RopeKind::standard && spec.rope.kind != RopeKind::llama3)
    return "this scaling of rotary positions";
  if (!spec.turns() && spec.embed().positions == 0) return "these positions";
  const AttentionSpec& first = first_attention(spec);
  for (const Unit& u : spec.units) {
    if (const AttentionSpec* a = attention_of(u)) {
      if (a->latent.present()) return "latent attention";
      if (a->window) return "windows of attention";
      if (a->sinks) return "attention sinks";
      if (a->softcap != 0 || a->scale != 0) return "soft caps or another scale of scores";
      if (a->alibi != AlibiKind::none || a->relative) return "biases by distance";
      if (a->head_norm == HeadNormKind::row) return "norms of whole rows of queries";
      if (a->norm.offset != 0) return "norms with an offset";
      if (a->join.norm.present() || a->join.multiplier != 1) return "norms or multipliers after a block";
      if (a->norm.kind == NormKind::none || a->norm.kind != first.norm.kind) return "norms of several kinds";
      if (a->qkv_bias != first.qkv_bias || a->out_bias != first.out_bias)
        return "biases that differ from layer to layer";
      if (spec.turns() && a->rope != RopeUse::main) return "rotary positions that differ from layer to layer";
    }
    if (const MlpSpec* m = mlp_of(u)) {
      const bool known = m->gated
                             ? m->activation == ActivationKind::silu
                             : m->activation == ActivationKind::gelu_erf || m->activation == ActivationKind::gelu_tanh;
      if (!known) return "this activation";
      if (m->bounds.present()) return "this activation";
      if (m->bias != first.out_bias) return "biases in the MLP and none in attention, or the reverse";
      if (m->join.norm.present() || m->join.multiplier != 1) return "norms or multipliers after a block";
    }
    if (const MoeSpec* e = moe_of(u)) {
      if (e->score != RouterScore::softmax || e->groups > 1 || e->choice_bias || e->scaling != 1 || e->shared_gate)
        return "this router";
      if (!e->gated || e->activation != ActivationKind::silu || e->bounds.present())
        return "this activation of experts";
      if (e->router_bias || e->expert_bias) return "biases of router or experts";
    }
  }
  return "";
}

std::string wrong_types(Framework f, const TrainJob& job) {
  if (job.dtype == DType::f64 || job.gradients == DType::f64) return "f64";
  if (f == Framework::torchtitan && job.dtype == DType::f16) return "f16";
  if (f != Framework::megatron && job.gradients != DType::f32) return "gradients other than f32";
  if (job.gradients == DType::bf16 && job.dtype != DType::bf16) return "bf16 gradients of other weights";
  const bool knows_rule =
      job.optimizer == UpdateRule::adamw || (f == Framework::megatron && job.optimizer == UpdateRule::sgd);
  if (!knows_rule) return std::string(name_of(job.optimizer));
  return "";
}

// What a sequence must be a multiple of: two pieces for each rank of the context axis, whose part is then cut by tensor
// rank for the norms.
// Source  Megatron-LM training/arguments.py (2·cp, by all-to-all too) and core/tensor_parallel/mappings.py (tp);
//         torchtitan trainer.py, seq_len_divisor.
int64_t parts_of_sequence(Framework f, const Mesh& m) {
  const int64_t ring = m.context > 1 ? 2 * m.context : 1;
  switch (f) {
    case Framework::megatron:
      return std::lcm(ring, m.tensor * m.context);
    case Framework::torchtitan:
      return ring * m.tensor;
    case Framework::deepspeed:
      break;
  }
  return 1;
}

}  // namespace

std::string_view name_of(Framework f) {
  constexpr std::array<std::string_view, 3> names{"megatron", "torchtitan", "deepspeed"};
  return names[static_cast<size_t>(f)];
}

std::string why_no_model(Framework f, const ModelSpec& spec, const TrainJob& job) {
  std::string why = wrong_types(f, job);
  if (why.empty() && job.tensor_overlap && f != Framework::megatron) why = "--tp-comm-overlap";
  if (why.empty()) why = no_model_words(spec);
  if (why.empty() && f == Framework::megatron) why = beyond_megatron(spec);
  if (why.empty() && f == Framework::torchtitan && torchtitan_model(spec).empty())
    why = "this model (there are llama3 8b, 70b, 405b and qwen3 0.6b, 1.7b, 14b, 32b)";
  return why.empty() ? "" : fmt::format("{}: what is emitted has not {}", name_of(f), why);
}

std::string why_not_run(Framework f, const TrainJob& job, const OuterChoice& c, int64_t devices_of_node) {
  const auto none = [&](std::string_view what) { return fmt::format("{}: no {}", name_of(f), what); };
  const Mesh& m = c.mesh;
  const int64_t group = m.tensor * m.context, D = c.devices();
  const int64_t of_node = group <= devices_of_node ? devices_of_node / group * group : devices_of_node;
  if (D > of_node && D % of_node)
    return fmt::format("{}: {} devices are no multiple of {} in a node", name_of(f), D, of_node);
  if (const int64_t parts = parts_of_sequence(f, m); job.seq % parts)
    return fmt::format("{}: --seq {} is no multiple of {}, which it asks with tp {} and cp {}", name_of(f), job.seq,
                       parts, m.tensor, m.context);
  const bool many = c.num_stages > 1;
  switch (f) {
    case Framework::megatron:
      if (many && !traits_of(c.schedule).megatron) return none(fmt::format("schedule {}", name_of(c.schedule)));
      return "";
    case Framework::torchtitan:
      if (many && traits_of(c.schedule).torchtitan.empty())
        return none(fmt::format("schedule {}", name_of(c.schedule)));
      if (m.context > 1 && m.ulysses) return none("context by ulysses");
      return "";
    case Framework::deepspeed:
      if (many) return none("pipeline in its file alone");
      if (m.context > 1) return none("context parallelism in its file alone");
      if (m.expert > 1 || m.expert_tensor > 1) return none("split of experts in its file alone");
      return "";
  }
  return "";
}

std::string why_not_run(Framework f, const OuterChoice& c, const LayerStrategy& s) {
  const auto none = [&](std::string_view what) { return fmt::format("{}: no {}", name_of(f), what); };
  if (s.activations != Tier::device) return none("activations off the device");
  if (s.states == Tier::disk) return none("states on disk");
  switch (f) {
    case Framework::megatron:
      if (s.states != Tier::device) return none("states off the device");
      if (s.zero >= 2 && c.num_stages > 1) return none("ZeRO 2 or 3 in a pipeline");
      if (s.recompute == Recompute::attention)
        return none("recomputation of the whole attention unit (its core_attn is the scores and their sum alone)");
      return "";
    case Framework::torchtitan:
      if (s.states != Tier::device) return none("states off the device alone");
      if (s.zero == 1) return none("ZeRO 1");
      if (s.recompute == Recompute::attention) return none("recomputation of attention alone");
      return "";
    case Framework::deepspeed:
      if (s.recompute != Recompute::none) return none("recomputation in its file");
      if (s.zero == 0 && s.states != Tier::device) return none("states off the device without ZeRO");
      if (s.zero == 3 && c.mesh.tensor > 1) return none("ZeRO 3 beside tensor parallelism");
      return "";
  }
  return "";
}

std::string limits_in_words(Framework f) {
  const auto schedules = [](const auto& runs) {
    std::vector<std::string> names;
    for (const PipelineScheduleTraits& t : kPipelineScheduleTable)
      if (runs(t)) names.emplace_back(t.name);
    const std::string last = names.back();
    names.pop_back();
    return fmt::format("{} or {}", join(names, ", "), last);
  };
  switch (f) {
    case Framework::megatron:
      return fmt::format(
          "what Megatron-LM runs: equal blocks per stage and one strategy, {}, ZeRO 2 and 3 only "
          "without a pipeline, recompute none or full, nothing off the device; memory as it keeps activations",
          schedules([](const PipelineScheduleTraits& t) { return t.megatron; }));
    case Framework::torchtitan:
      return fmt::format(
          "what torchtitan runs: equal blocks per stage and one strategy, {}, ZeRO 0, 2 or 3, context in a ring, "
          "recompute none or full, nothing off the device; memory as it keeps activations and states",
          schedules([](const PipelineScheduleTraits& t) { return !t.torchtitan.empty(); }));
    case Framework::deepspeed:
      return "what DeepSpeed's file alone says: data and tensor parallelism, ZeRO 0 to 3 (3 without tensor "
             "parallelism), "
             "no recomputation, states on the device or the host";
  }
  return "";
}

// Published sizes of torchtitan's registry.
std::string torchtitan_model(const ModelSpec& spec) {
  struct Row {
    std::string_view module, name;  // of torchtitan
    int64_t vocab, width, layers, heads, kv_heads, hidden;
  };
  constexpr std::array kRows{
      Row{"llama3", "llama3_8b", 128256, 4096, 32, 32, 8, 14336},
      Row{"llama3", "llama3_70b", 128256, 8192, 80, 64, 8, 28672},
      Row{"llama3", "llama3_405b", 128256, 16384, 126, 128, 8, 53248},
      Row{"qwen3", "qwen3_0_6b", 151936, 1024, 28, 16, 8, 3072},
      Row{"qwen3", "qwen3_1_7b", 151936, 2048, 28, 16, 8, 6144},
      Row{"qwen3", "qwen3_14b", 151936, 5120, 40, 40, 8, 17408},
      Row{"qwen3", "qwen3_32b", 151936, 5120, 64, 64, 8, 25600},
  };
  const MlpSpec* mlp = first_mlp(spec);
  if (!mlp || !no_model_words(spec).empty()) return "";
  const AttentionSpec& a = first_attention(spec);
  const bool qwen = a.head_norm == HeadNormKind::head;
  if (!mlp->gated || mlp->activation != ActivationKind::silu || mlp->bias || a.qkv_bias || a.out_bias ||
      a.norm.kind != NormKind::rms || a.head_norm == HeadNormKind::row || a.window || !spec.turns() ||
      a.latent.present())
    return "";
  for (const Row& r : kRows)
    if (spec.vocab == r.vocab && spec.width == r.width && spec.layers == r.layers && a.heads == r.heads &&
        a.kv_heads == r.kv_heads && mlp->hidden == r.hidden && qwen == (r.module == "qwen3"))
      return fmt::format("--module {} --config {}", r.module, r.name);
  return "";
}

}  // namespace tern
