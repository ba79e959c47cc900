// What only some families have in GGUF's keys, and what llama.cpp's code fixes where no key says it.

#include <nlohmann/json.hpp>

#include "formats/gguf/config_families.h"
#include "formats/hf/config_impl.h"

namespace tern {

void read_gguf_experts(const GgufKeys& keys, const GgufFamily& family, const HfFamily& hf, Json& config) {
  const int64_t experts = keys.needed("expert_count"), used = keys.needed("expert_used_count");
  config[option_key(hf, &HfConfig::num_experts)] = experts;
  config[option_key(hf, &HfConfig::experts_per_token)] = used;
  const int64_t hidden = keys.needed("feed_forward_length");
  // Some early files lack the widths of experts: llama.cpp then shares the layer's out.
  if (const std::string key = option_key(hf, &HfConfig::expert_size); !key.empty())
    config[key] = keys.integer("expert_feed_forward_length").value_or(hidden / used);
  if (const std::string key = option_key(hf, &HfConfig::shared_expert_size); !key.empty())
    config[key] = keys.integer("expert_shared_feed_forward_length").value_or(hidden);
  if (const std::string key = option_key(hf, &HfConfig::normalized_experts); !key.empty())
    config[key] = family.normalized_experts;
  if (const auto scale = keys.number("expert_weights_scale"); scale && *scale != 0 && *scale != 1)
    keys.fail(keys.key("expert_weights_scale"), "{}, but {} models do not scale their experts", *scale, hf.name);
  constexpr int64_t kSoftmax = 1;
  if (const auto score = keys.integer("expert_gating_func"); score && *score != kSoftmax)
    keys.fail(keys.key("expert_gating_func"), "{}, but {}'s router takes a softmax, {}", *score, hf.name, kSoftmax);
}

void read_gguf_gemma(const GgufKeys& keys, const GgufFamily& family, const HfFamily& hf, Json& config) {
  if (!has_option(hf, &HfConfig::query_pre_attn_scalar)) return;
  const int64_t layers = config["num_hidden_layers"], width = config["hidden_size"],
                heads = config["num_attention_heads"];
  const int64_t head_dim = config["head_dim"];
  config["query_pre_attn_scalar"] = layers == family.layers_of_wide_heads ? width / heads : head_dim;
  const bool caps_scores = has_option(hf, &HfConfig::attn_logit_softcapping);
  if (caps_scores) {
    config["attn_logit_softcapping"] = keys.number("attn_logit_softcapping").value_or(50);
    config["final_logit_softcapping"] = keys.number("final_logit_softcapping").value_or(30);
  } else if (const auto cap = keys.number("final_logit_softcapping"); cap && *cap != 0) {
    config["final_logit_softcapping"] = *cap;
  }
  const auto window = keys.integer("attention.sliding_window");
  config["sliding_window"] = window && *window > 0 ? Json(*window) : caps_scores ? Json(4096) : Json(nullptr);
  const auto pattern = keys.file.find(keys.key("attention.sliding_window_pattern"));
  if (pattern && pattern->type() == GgufValueType::array)
    keys.fail(keys.key("attention.sliding_window_pattern"), "a list, expected a period");
  config["sliding_window_pattern"] = pattern ? pattern->as_i64() : family.full_every;
  if (hf.defaults.local_rope_theta == 0) return;
  const double local = keys.number("rope.freq_base_swa").value_or(hf.defaults.local_rope_theta);
  config["rope_parameters"] = {{"full_attention", config["rope_parameters"]},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
}

void read_gguf_branches(const GgufKeys& keys, const GgufFamily& family, const HfFamily& hf, Json& config) {
  if (!family.switch_of_branches.empty())
    config[option_key(hf, &HfConfig::parallel_residual)] = keys.file.get(keys.key(family.switch_of_branches)).as_bool();
  if (!has_option(hf, &HfConfig::multi_query)) return;
  // Falcon: one key head and one norm; groups with a norm, or two.
  const bool two = keys.file.find_tensor("blk.0.attn_norm_2.weight") != nullptr;
  const bool grouped = two || config[std::string(hf_key(hf.name, "num_key_value_heads"))] != 1;
  config["new_decoder_architecture"] = grouped;
  config["multi_query"] = true;
  config["parallel_attn"] = true;
  if (grouped) config["num_ln_in_parallel_attn"] = two ? 2 : 1;
}

}  // namespace tern
