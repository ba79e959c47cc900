#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "formats/hf/config_impl.h"

// Keys in alphabetical order, two blanks, a line end: as transformers writes the file.

namespace tern {
namespace {

using SortedJson = nlohmann::json;

template <class T>
SortedJson or_null(const std::optional<T>& value) {
  return value ? SortedJson(*value) : SortedJson(nullptr);
}

std::string_view torch_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      return "float32";
  }
}

SortedJson rope_json(const HfFamily& family, const HfRope& r) {
  SortedJson j = {{"rope_type", name_of(r.type)}};
  if (family.defaults.partial_rotary) j["partial_rotary_factor"] = r.partial;
  if (r.factor) j["factor"] = *r.factor;
  if (r.original_max_position_embeddings > 0)
    j["original_max_position_embeddings"] = r.original_max_position_embeddings;
  if (r.attention_factor) j["attention_factor"] = *r.attention_factor;
  if (r.type == RopeType::yarn) {
    j["beta_fast"] = r.beta_fast;
    j["beta_slow"] = r.beta_slow;
    if (r.mscale) j["mscale"] = *r.mscale;
    if (r.mscale_all_dim) j["mscale_all_dim"] = *r.mscale_all_dim;
    if (!r.truncate) j["truncate"] = false;  // older readers do not know the key
  }
  if (r.type == RopeType::llama3) {
    j["low_freq_factor"] = r.low_freq_factor;
    j["high_freq_factor"] = r.high_freq_factor;
  }
  if (r.type == RopeType::longrope) {
    j["short_factor"] = r.short_factor;
    j["long_factor"] = r.long_factor;
  }
  return j;
}

void write_rope(SortedJson& j, const HfFamily& family, const HfConfig& c, HfForm form) {
  const HfRope& rope = c.rope;
  const auto whole = [&](const HfRope& r) {
    SortedJson object = rope_json(family, r);
    object["rope_theta"] = r.theta;
    return object;
  };
  // The old form has one number for windowed layers, and no kind.
  if (form == HfForm::v5 || (c.local_rope && c.local_rope->type != RopeType::standard)) {
    if (c.local_rope)
      j["rope_parameters"] = {{"full_attention", whole(rope)}, {"sliding_attention", whole(*c.local_rope)}};
    else
      j["rope_parameters"] = whole(rope);
    return;
  }
  j[std::string(hf_key(c.model_type, "rope_theta"))] = rope.theta;
  if (c.local_rope) j["rope_local_base_freq"] = c.local_rope->theta;
  if (family.defaults.partial_rotary) j[std::string(hf_key(c.model_type, "partial_rotary_factor"))] = rope.partial;
  j["rope_scaling"] = nullptr;
  if (rope.type == RopeType::standard && !family.defaults.rope) return;
  j["rope_scaling"] = rope_json(family, rope);
  j["rope_scaling"].erase("partial_rotary_factor");
  j["rope_scaling"]["type"] = name_of(rope.type);  // the key's name before 4.43
}

// Which layers have a window, and which turn.
void write_layers(SortedJson& j, const HfFamily& family, const HfConfig& c) {
  const HfWindows windows = family.blocks.windows;
  if (windows == HfWindows::none) return;
  j["sliding_window"] = or_null(c.sliding_window);
  if (windows == HfWindows::every) return;
  if (windows != HfWindows::listed) j["use_sliding_window"] = c.sliding_window.has_value();
  if (windows == HfWindows::switched_every) return;
  SortedJson kinds = SortedJson::array();
  int64_t first = c.num_hidden_layers;
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    const bool windowed = c.sliding_window && (c.windowed_layers.empty() || c.windowed_layers[static_cast<size_t>(i)]);
    if (windowed) first = std::min(first, i);
    kinds.push_back(windowed ? "sliding_attention" : "full_attention");
  }
  j["layer_types"] = kinds;
  if (windows == HfWindows::switched) j["max_window_layers"] = first;
  if (family.blocks.unturned_every == 0 || windows == HfWindows::listed) return;
  j.erase("max_window_layers");
  SortedJson turned = SortedJson::array();
  for (int64_t i = 0; i < c.num_hidden_layers; ++i)
    turned.push_back(c.rotary_layers.empty() || c.rotary_layers[static_cast<size_t>(i)] ? 1 : 0);
  j["no_rope_layers"] = turned;
}

void write_experts(SortedJson& j, const HfFamily& family, const HfConfig& c) {
  if (family.blocks.experts == HfExperts::after) {
    j["first_k_dense_replace"] = std::count(c.expert_layers.begin(), c.expert_layers.end(), false);
    j["n_shared_experts"] = c.shared_expert_size / c.expert_size;
    j["topk_method"] = family.blocks.sigmoid_router ? "noaux_tc" : c.grouped_choice ? "group_limited_greedy" : "greedy";
    j["scoring_func"] = family.blocks.sigmoid_router ? "sigmoid" : "softmax";
  }
  if (family.blocks.latent) {
    j["q_lora_rank"] = c.query_rank > 0 ? SortedJson(c.query_rank) : SortedJson(nullptr);
    j["qk_rope_head_dim"] = c.head_dim;
  }
  if (family.blocks.experts != HfExperts::stepped) return;
  j["decoder_sparse_step"] = 1;
  SortedJson dense = SortedJson::array();
  for (size_t i = 0; i < c.expert_layers.size(); ++i)
    if (!c.expert_layers[i]) dense.push_back(i);
  j["mlp_only_layers"] = dense;
}

SortedJson option_value(const HfOption& option, const HfConfig& c) {
  return std::visit(
      [&](auto to) {
        if constexpr (std::is_same_v<decltype(to), std::optional<double> HfConfig::*>) {
          const std::optional<double> value = c.*to;
          if (option.whole && value && std::abs(*value) < 0x1p53 && *value == std::trunc(*value))
            return SortedJson(static_cast<int64_t>(*value));
          return or_null(value);
        } else
          return option.zero_is_null && c.*to == 0 ? SortedJson(nullptr) : SortedJson(c.*to);
      },
      option.to);
}

}  // namespace

std::string hf_config_json(const HfConfig& c, HfForm form) {
  check_hf_config(c);
  const HfFamily& family = hf_family(c);
  SortedJson j;
  const auto put = [&](std::string_view field, SortedJson value) {
    if (has_hf_key(family, field)) j[std::string(hf_key(c.model_type, field))] = std::move(value);
  };

  j["model_type"] = c.model_type;
  j["architectures"] = c.architectures.empty() ? std::vector{std::string(family.architecture)} : c.architectures;
  // Readers ask this for the spelling to expect, so it states the oldest release that writes the file like this.
  j["transformers_version"] = form == HfForm::v5 ? "5.0.0" : "4.40.0";
  j["use_cache"] = true;
  if (c.coded) j["quantization_config"] = {{"quant_method", kCodedMethod}};
  if (c.dtype) j[form == HfForm::v5 ? "dtype" : "torch_dtype"] = torch_name(*c.dtype);

  j["vocab_size"] = c.vocab_size;
  put("hidden_size", c.hidden_size);
  put("num_hidden_layers", c.num_hidden_layers);
  put("num_attention_heads", c.num_attention_heads);
  put("max_position_embeddings", c.max_position_embeddings);
  put("hidden_act", c.hidden_act);
  put("norm_eps", c.norm_eps);
  put("attention_dropout", c.attention_dropout);
  j[std::string(hf_key(c.model_type, "initializer_range"))] = c.initializer_range;
  j["tie_word_embeddings"] = c.tie_word_embeddings;

  j["bos_token_id"] = or_null(c.bos_token_id);
  j["pad_token_id"] = or_null(c.pad_token_id);
  j["eos_token_id"] = nullptr;
  if (c.eos_token_ids.size() == 1) j["eos_token_id"] = c.eos_token_ids[0];
  if (c.eos_token_ids.size() > 1) j["eos_token_id"] = c.eos_token_ids;

  const std::optional<int64_t>& factor = family.defaults.intermediate_factor;
  put("intermediate_size",
      factor && c.intermediate_size == *factor * c.hidden_size ? SortedJson(nullptr) : SortedJson(c.intermediate_size));
  if (family.has_kv_heads) put("num_key_value_heads", c.num_key_value_heads);
  if (family.has_head_dim) j["head_dim"] = c.head_dim;
  if (hf_blocks(c).positions == HfPositions::rotary) write_rope(j, family, c, form);
  if (c.rope.type == RopeType::longrope && family.states_original_context)
    j["original_max_position_embeddings"] = c.rope.original_max_position_embeddings;
  write_layers(j, family, c);
  write_experts(j, family, c);
  if (family.hidden_again_written)
    for (const std::string_view key : family.hidden_again) j[std::string(key)] = c.hidden_size;
  for (const HfOption& option : family.options) j[std::string(option.key)] = option_value(option, c);
  for (const HfFixed& fixed : family.fixed)
    if (fixed.written) j[std::string(fixed.key)] = fixed.expected;
  return j.dump(2, ' ', true) + "\n";
}

}  // namespace tern
