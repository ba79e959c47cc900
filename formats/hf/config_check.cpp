#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "formats/hf/config_impl.h"

namespace tern {
namespace {

/// One config being judged: `kind` and `place` say whose fault it would be.
struct Judge {
  const HfConfig& config;
  ErrorKind kind;
  std::string_view place;

  template <class... Args>
  [[noreturn]] void fail(std::string_view field, fmt::format_string<Args...> format, Args&&... args) const {
    throw Error(kind, "{}: {}: {}", place, hf_key(config.model_type, field),
                fmt::format(format, std::forward<Args>(args)...));
  }
  void size(std::string_view field, int64_t value) const {
    if (value < 1 || value > INT32_MAX) fail(field, "{}, expected 1 to 2147483647", value);
  }
  void share(std::string_view field, double value) const {
    if (!(value >= 0 && value < 1)) fail(field, "{}, expected at least 0 and less than 1", value);
  }
  void id(std::string_view field, int64_t value) const {
    if (value < 0 || value >= config.vocab_size)
      fail(field, "{}, expected an id of the vocabulary, 0 to {}", value, config.vocab_size - 1);
  }
};

// What no key of the family sets must stand at its default.
void check_options(const Judge& judge, const HfFamily& family) {
  const HfConfig& c = judge.config;
  const auto bias = [&](std::string_view field, bool value, bool expected, bool HfConfig::*to) {
    if (has_option(family, to) || value == expected) return;
    if (expected) judge.fail(field, "absent, but {} has biases everywhere", c.model_type);
    judge.fail(field, "true, but {} has no biases", c.model_type);
  };
  bias("attention_bias", c.attention_bias, family.defaults.attention_bias, &HfConfig::attention_bias);
  bias("mlp_bias", c.mlp_bias, family.defaults.mlp_bias, &HfConfig::mlp_bias);
  if ((c.residual_dropout != 0 && !has_option(family, &HfConfig::residual_dropout)) ||
      (c.embedding_dropout != 0 && !has_option(family, &HfConfig::embedding_dropout)))
    judge.fail("resid_pdrop", "set, but {} has only attention_dropout", c.model_type);
  const auto factor = [&](std::string_view field, double value, double HfConfig::*to) {
    if (!std::isfinite(value) || value == 0) judge.fail(field, "{}, expected a number that is not 0", value);
    if (value != 1 && !has_option(family, to)) judge.fail(field, "{}, but {} has none", value, c.model_type);
  };
  factor("embedding_multiplier", c.embedding_multiplier, &HfConfig::embedding_multiplier);
  factor("residual_multiplier", c.residual_multiplier, &HfConfig::residual_multiplier);
  factor("logits_scaling", c.logits_scaling, &HfConfig::logits_scaling);
  const auto positive = [&](std::string_view field, std::optional<double> value, std::optional<double> HfConfig::*to) {
    if (!value) return;
    if (!(*value > 0) || !std::isfinite(*value)) judge.fail(field, "{}, expected more than 0", *value);
    if (!has_option(family, to)) judge.fail(field, "{}, but {} has none", *value, c.model_type);
  };
  const auto switched = [&](std::string_view field, bool value, bool HfConfig::*to) {
    if (value && !has_option(family, to)) judge.fail(field, "true, but {} has none", c.model_type);
  };
  switched("parallel_residual", c.parallel_residual, &HfConfig::parallel_residual);
  switched("alibi", c.alibi, &HfConfig::alibi);
  switched("multi_query", c.multi_query, &HfConfig::multi_query);
  switched("new_decoder_architecture", c.new_decoder_architecture, &HfConfig::new_decoder_architecture);
  if (family.settle) {
    HfConfig settled = c;
    if (const std::string complaint = family.settle(settled); !complaint.empty())
      throw Error(judge.kind, "{}: {}", judge.place, complaint);
    if (!(settled == c))
      judge.fail("num_key_value_heads", "{}, which the other keys of {} do not give", c.num_key_value_heads,
                 c.model_type);
  } else if (c.parallel_norms != 0) {
    judge.fail("num_ln_in_parallel_attn", "{}, but {} has none", c.parallel_norms, c.model_type);
  }
  if (has_option(family, &HfConfig::type_vocab_size))
    judge.size("type_vocab_size", c.type_vocab_size);
  else if (c.type_vocab_size != 0)
    judge.fail("type_vocab_size", "{}, but {} has none", c.type_vocab_size, c.model_type);
  positive("attention_multiplier", c.attention_multiplier, &HfConfig::attention_multiplier);
  positive("query_pre_attn_scalar", c.query_pre_attn_scalar, &HfConfig::query_pre_attn_scalar);
  positive("attn_logit_softcapping", c.attn_logit_softcapping, &HfConfig::attn_logit_softcapping);
  positive("final_logit_softcapping", c.final_logit_softcapping, &HfConfig::final_logit_softcapping);
}

void check_layers(const Judge& judge, const HfFamily& family) {
  const HfConfig& c = judge.config;
  if (c.sliding_window && family.blocks.windows == HfWindows::none)
    judge.fail("sliding_window", "{}, but {} has none", *c.sliding_window, c.model_type);
  const auto listed = [&](std::string_view field, const std::vector<bool>& layers, bool allowed) {
    if (layers.empty()) return;
    if (!allowed) judge.fail(field, "set, but all layers of {} are alike", c.model_type);
    if (static_cast<int64_t>(layers.size()) != c.num_hidden_layers)
      judge.fail(field, "a list of {}, expected one of each of {} layers", layers.size(), c.num_hidden_layers);
  };
  listed("layer_types", c.windowed_layers,
         c.sliding_window &&
             (family.blocks.windows == HfWindows::switched || family.blocks.windows == HfWindows::switched_even ||
              family.blocks.windows == HfWindows::listed));
  listed("no_rope_layers", c.rotary_layers, family.blocks.unturned_every > 0);
  if (family.blocks.windows == HfWindows::listed && family.blocks.unturned_every > 0 &&
      c.rotary_layers != c.windowed_layers)
    judge.fail("layer_types", "other layers turn than those with a window, which {} does not have", c.model_type);
}

void check_sizes(const Judge& judge, const HfFamily& family) {
  const HfConfig& c = judge.config;
  judge.size("vocab_size", c.vocab_size);
  judge.size("hidden_size", c.hidden_size);
  judge.size("intermediate_size", c.intermediate_size);
  if (c.num_hidden_layers < 1 || c.num_hidden_layers > kMostLayers)
    judge.fail("num_hidden_layers", "{}, expected 1 to {}", c.num_hidden_layers, kMostLayers);
  judge.size("num_attention_heads", c.num_attention_heads);
  judge.size("num_key_value_heads", c.num_key_value_heads);
  judge.size("head_dim", c.head_dim);
  judge.size("max_position_embeddings", c.max_position_embeddings);
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    judge.fail("num_attention_heads", "{} is no multiple of num_key_value_heads {}", c.num_attention_heads,
               c.num_key_value_heads);
  if (!family.any_width && c.hidden_size % c.num_attention_heads != 0)
    judge.fail("hidden_size", "{} is no multiple of {} {}", c.hidden_size, hf_key(c.model_type, "num_attention_heads"),
               c.num_attention_heads);
  if (c.head_dim > INT32_MAX / c.num_attention_heads)
    judge.fail("head_dim", "{} times {} heads, expected a product below 2^31", c.head_dim, c.num_attention_heads);
}

void check_positions(const Judge& judge, const HfFamily& family) {
  const HfConfig& c = judge.config;
  const HfPositions positions = hf_blocks(c).positions;
  const bool rotary = positions == HfPositions::rotary;
  if (!rotary && c.rope.type != RopeType::none)
    judge.fail("rope_type", "'{}', but {} {}; expected none", name_of(c.rope.type), c.model_type,
               positions == HfPositions::learned ? "learns its positions" : "has no rotary positions");
  if (rotary && c.rope.type == RopeType::none)
    judge.fail("rope_type", "none, but {} turns positions; expected default or another", c.model_type);
  if (rotary) check_hf_rope(c, c.rope, judge.kind, judge.place);
  if (c.local_rope.has_value() != (family.defaults.local_rope_theta > 0))
    judge.fail("rope_parameters", "{} for windowed layers, but {} {}", c.local_rope ? "set" : "none", c.model_type,
               c.local_rope ? "has none of its own there" : "has its own there");
  if (c.local_rope) check_hf_rope(c, *c.local_rope, judge.kind, judge.place);
}

}  // namespace

void check_hf_values(const HfConfig& c, ErrorKind kind, std::string_view place) {
  const Judge judge{c, kind, place};
  const HfFamily* known = find_hf_family(c.model_type);
  if (!known) judge.fail("model_type", "'{}', expected one of {}", c.model_type, fmt::join(supported_families(), ", "));

  const HfFamily& family = *known;
  check_sizes(judge, family);
  if (activation_named(c.hidden_act) != c.activation)
    judge.fail("hidden_act", "'{}' is not the name of the activation set", c.hidden_act);
  if (!(c.norm_eps > 0 && c.norm_eps <= 1))
    judge.fail("norm_eps", "{}, expected more than 0 and at most 1", c.norm_eps);
  if (!(c.initializer_range >= 0 && c.initializer_range <= 1))
    judge.fail("initializer_range", "{}, expected 0 to 1", c.initializer_range);
  judge.share("attention_dropout", c.attention_dropout);
  judge.share("resid_pdrop", c.residual_dropout);
  judge.share("embd_pdrop", c.embedding_dropout);
  if (c.sliding_window) judge.size("sliding_window", *c.sliding_window);
  if (c.bos_token_id) judge.id("bos_token_id", *c.bos_token_id);
  if (c.pad_token_id) judge.id("pad_token_id", *c.pad_token_id);
  for (const int64_t eos : c.eos_token_ids) judge.id("eos_token_id", eos);
  if (c.dtype && *c.dtype != DType::f32 && *c.dtype != DType::bf16 && *c.dtype != DType::f16 && *c.dtype != DType::f64)
    judge.fail("dtype", "{}, expected f32, bf16, f16 or f64", name_of(*c.dtype));

  check_positions(judge, family);
  if (!family.has_kv_heads && c.num_key_value_heads != c.num_attention_heads)
    judge.fail("num_key_value_heads", "{}, but {} has one per head", c.num_key_value_heads, c.model_type);
  if (!family.has_head_dim && c.head_dim != c.hidden_size / c.num_attention_heads)
    judge.fail("head_dim", "{}, but {}'s is {} / {}", c.head_dim, c.model_type, hf_key(c.model_type, "hidden_size"),
               hf_key(c.model_type, "num_attention_heads"));
  check_options(judge, family);
  check_layers(judge, family);
  check_hf_experts(c, family, kind, place);
  check_hf_latent(c, family, kind, place);
  check_hf_size(c, kind, place);
}

void check_hf_config(const HfConfig& config) { check_hf_values(config, ErrorKind::usage, "model config"); }

}  // namespace tern
