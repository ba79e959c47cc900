// A model's configuration into GGUF's keys: the names are llama.cpp's, as its converter writes and its loader reads
// them.
#include <fmt/format.h>

#include <cmath>

#include "base/error.h"
#include "formats/gguf/families.h"
#include "formats/gguf/model.h"
#include "formats/gguf/write.h"
#include "formats/hf/config_impl.h"

namespace tern {

namespace {

// Of gpt-oss, in llama.cpp's graph.
struct ClampedDefaults {
  double alpha = 1.702, limit = 7;
};

// What llama.cpp fixes in its code and no key says.
void refuse_what_it_leaves_out(const HfConfig& c, const HfFamily& hf, const GgufFamily& family) {
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorKind::usage, "GGUF: its {} has {}; export to --format hf", family.architecture, what);
  };
  if (const int64_t period = family.unturned_every; period > 0)
    for (int64_t layer = 0; layer < c.num_hidden_layers; ++layer)
      if ((c.rotary_layers.empty() || c.rotary_layers[static_cast<size_t>(layer)]) != ((layer + 1) % period != 0))
        refuse(fmt::format("one layer in {} without rotary positions, this model others", period));
  if (family.without_windows && c.sliding_window) refuse("no windows, this model has");
  if (family.needs_window && !c.sliding_window) refuse("windows, this model none");
  if (constexpr ClampedDefaults gate{}; c.gate_limit != 0 && (c.gate_alpha != gate.alpha || c.gate_limit != gate.limit))
    refuse(fmt::format("experts with swiglu_alpha {} and swiglu_limit {}, this model {} and {}", gate.alpha, gate.limit,
                       c.gate_alpha, c.gate_limit));
  if (family.untied && c.tie_word_embeddings) refuse("a head of its own, this model's is tied");
  if (family.tied && !c.tie_word_embeddings) refuse("a tied head, this model has one of its own");
  if (family.without_biases && c.attention_bias) refuse("no biases, this model has");
  if (hf.defaults.attention_bias && !c.attention_bias && !hf.blocks.gated) refuse("biases, this model has none");
  if (has_option(hf, &HfConfig::alibi) && (c.alibi || !c.parallel_residual))
    refuse("rotary positions and both branches beside each other, this model otherwise");
  if (family.mixture && !c.expert_layers.empty()) refuse("experts in every layer, this model in some");
  if (family.mixture && c.normalized_experts != family.normalized_experts)
    refuse(fmt::format("weights of experts that are {}divided by their sum, this model otherwise",
                       family.normalized_experts ? "" : "not "));
}

// Gemma's windows, caps and scores.
void refuse_another_gemma(const HfConfig& c, const HfFamily& hf, const GgufFamily& family) {
  const auto refuse = [&](std::string_view what) {
    throw Error(ErrorKind::usage, "GGUF: its {} has {}; export to --format hf", family.architecture, what);
  };
  for (int64_t layer = 0; c.sliding_window && layer < c.num_hidden_layers; ++layer)
    if ((c.windowed_layers.empty() || c.windowed_layers[static_cast<size_t>(layer)]) !=
        ((layer + 1) % family.full_every != 0))
      refuse(fmt::format("one layer in {} without a window, this model others", family.full_every));
  const bool caps_scores = has_option(hf, &HfConfig::attn_logit_softcapping);
  if (caps_scores && (!c.sliding_window || !c.attn_logit_softcapping || !c.final_logit_softcapping))
    refuse("windows and capped scores and logits, this model not all of them");
  const double scores = c.num_hidden_layers == family.layers_of_wide_heads
                            ? static_cast<double>(c.hidden_size / c.num_attention_heads)
                            : static_cast<double>(c.head_dim);
  if (c.query_pre_attn_scalar.value_or(scores) != scores)
    refuse(fmt::format("query_pre_attn_scalar {}, this model {}", scores, *c.query_pre_attn_scalar));
  if (c.local_rope && (c.local_rope->type != RopeType::standard || c.local_rope->partial != 1))
    refuse("plain rotary positions in layers with a window, this model others");
}

// Keys of the architecture.
struct ArchitectureKeys {
  GgufMetadata& metadata;
  std::string arch;

  void count(std::string_view name, int64_t n) const {
    metadata.add(fmt::format("{}.{}", arch, name), static_cast<uint32_t>(n));
  }
  void real(std::string_view name, double x) const {
    metadata.add(fmt::format("{}.{}", arch, name), static_cast<float>(x));
  }
};

void add_experts(const ArchitectureKeys& keys, const HfConfig& c, bool needs_width) {
  keys.count("expert_count", c.num_experts);
  keys.count("expert_used_count", c.experts_per_token);
  if (c.expert_size > 0 || needs_width)
    keys.count("expert_feed_forward_length", c.expert_size > 0 ? c.expert_size : c.intermediate_size);
  if (c.shared_expert_size > 0) keys.count("expert_shared_feed_forward_length", c.shared_expert_size);
}

void add_rope_scaling(const ArchitectureKeys& keys, const HfRope& r, bool untruncated) {
  switch (r.type) {
    case RopeType::standard:
    case RopeType::llama3:  // as a tensor
      break;
    case RopeType::linear:
    case RopeType::yarn:
      if (r.mscale || r.mscale_all_dim || (r.type == RopeType::yarn && r.truncate == untruncated) || r.attention_factor)
        throw Error(ErrorKind::usage,
                    "GGUF: yarn's mscale, mscale_all_dim, truncate and attention_factor have no key of this "
                    "architecture; export to --format hf");
      keys.metadata.add(keys.arch + ".rope.scaling.type", name_of(r.type));
      keys.real("rope.scaling.factor", r.factor.value_or(1));
      if (r.type == RopeType::linear) break;
      keys.count("rope.scaling.original_context_length", r.original_max_position_embeddings);
      keys.real("rope.scaling.yarn_beta_fast", r.beta_fast);
      keys.real("rope.scaling.yarn_beta_slow", r.beta_slow);
      break;
    default:
      throw Error(ErrorKind::usage, "GGUF: rotary scaling '{}' has no keys there; export to --format hf",
                  name_of(r.type));
  }
}

}  // namespace

void add_gguf_config(GgufMetadata& m, const HfConfig& c) {
  const GgufFamily* family = gguf_family(c.model_type);
  if (!family)
    throw Error(ErrorKind::usage, "GGUF: tern does not write family '{}' there; export to --format hf", c.model_type);
  const HfFamily& hf = hf_family(c);
  const std::string arch(family->architecture);
  const ArchitectureKeys keys{m, arch};
  m.add("general.architecture", arch);
  m.add("general.type", "model");
  keys.count("block_count", c.num_hidden_layers);
  keys.count("context_length", c.max_position_embeddings);
  keys.count("embedding_length", c.hidden_size);
  keys.count("feed_forward_length", c.intermediate_size);
  keys.count("attention.head_count", c.num_attention_heads);
  keys.count("vocab_size", c.vocab_size);
  keys.real(gguf_epsilon_key(hf), c.norm_eps);
  if (c.activation != activation_named(family->activation))
    throw Error(ErrorKind::usage, "GGUF: its {} computes {}, this model {}; export to --format hf", arch,
                family->activation, c.hidden_act);
  refuse_what_it_leaves_out(c, hf, *family);
  if (family->full_every > 0) refuse_another_gemma(c, hf, *family);
  if (family->mixture) add_experts(keys, c, family->needs_expert_width);
  if (!family->switch_of_branches.empty())
    m.add(fmt::format("{}.{}", arch, family->switch_of_branches), c.parallel_residual);
  if (c.attn_logit_softcapping) keys.real("attn_logit_softcapping", *c.attn_logit_softcapping);
  if (c.final_logit_softcapping) keys.real("final_logit_softcapping", *c.final_logit_softcapping);
  if (hf.blocks.positions != HfPositions::rotary) return;
  if (family->multipliers) {
    keys.real("attention.scale", c.attention_multiplier.value_or(1 / std::sqrt(static_cast<double>(c.head_dim))));
    keys.real("embedding_scale", c.embedding_multiplier);
    keys.real("residual_scale", c.residual_multiplier);
    keys.real("logit_scale", c.logits_scaling);
  }
  keys.count("attention.head_count_kv", c.num_key_value_heads);
  keys.count("attention.key_length", c.head_dim);
  keys.count("attention.value_length", c.head_dim);
  keys.count("rope.dimension_count", rotary_dim(c.rope, c.head_dim));
  keys.real("rope.freq_base", c.rope.theta);
  if (c.sliding_window) keys.count("attention.sliding_window", *c.sliding_window);
  if (c.local_rope) keys.real("rope.freq_base_swa", c.local_rope->theta);
  add_rope_scaling(keys, c.rope, family->untruncated_yarn);
}

}  // namespace tern
