#include <nlohmann/json.hpp>

#include "formats/hf_config_impl.h"

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

SortedJson rope_json(const HfRope& r) {
  SortedJson j = {{"rope_type", name_of(r.type)}};
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

void write_rope(SortedJson& j, const HfRope& rope, HfForm form) {
  if (form == HfForm::v5) {
    j["rope_parameters"] = rope_json(rope);
    j["rope_parameters"]["rope_theta"] = rope.theta;
    return;
  }
  j["rope_theta"] = rope.theta;
  j["rope_scaling"] = nullptr;
  if (rope.type == RopeType::standard) return;
  j["rope_scaling"] = rope_json(rope);
  j["rope_scaling"]["type"] = name_of(rope.type);  // the key's name before 4.43
}

std::string default_architecture(std::string_view model_type) {
  if (model_type == "gpt2") return "GPT2LMHeadModel";
  return model_type == "mistral" ? "MistralForCausalLM" : "LlamaForCausalLM";
}

}  // namespace

std::string hf_config_json(const HfConfig& c, HfForm form) {
  check_hf_config(c);
  SortedJson j;
  const auto put = [&](std::string_view field, SortedJson value) {
    j[std::string(hf_key(c.model_type, field))] = std::move(value);
  };

  j["model_type"] = c.model_type;
  j["architectures"] = c.architectures.empty() ? std::vector{default_architecture(c.model_type)} : c.architectures;
  // Readers ask this for the spelling to expect, so it states the oldest release that writes the file like this.
  j["transformers_version"] = form == HfForm::v5 ? "5.0.0" : "4.40.0";
  j["use_cache"] = true;
  if (c.dtype) j[form == HfForm::v5 ? "dtype" : "torch_dtype"] = torch_name(*c.dtype);

  j["vocab_size"] = c.vocab_size;
  put("hidden_size", c.hidden_size);
  put("num_hidden_layers", c.num_hidden_layers);
  put("num_attention_heads", c.num_attention_heads);
  put("max_position_embeddings", c.max_position_embeddings);
  put("hidden_act", c.hidden_act);
  put("norm_eps", c.norm_eps);
  put("attention_dropout", c.attention_dropout);
  j["initializer_range"] = c.initializer_range;
  j["tie_word_embeddings"] = c.tie_word_embeddings;

  j["bos_token_id"] = or_null(c.bos_token_id);
  j["pad_token_id"] = or_null(c.pad_token_id);
  j["eos_token_id"] = nullptr;
  if (c.eos_token_ids.size() == 1) j["eos_token_id"] = c.eos_token_ids[0];
  if (c.eos_token_ids.size() > 1) j["eos_token_id"] = c.eos_token_ids;

  if (c.model_type == "gpt2") {
    j["n_inner"] = c.intermediate_size == 4 * c.hidden_size ? SortedJson(nullptr) : SortedJson(c.intermediate_size);
    j["resid_pdrop"] = c.residual_dropout;
    j["embd_pdrop"] = c.embedding_dropout;
    j["scale_attn_weights"] = true;
  } else {
    j["intermediate_size"] = c.intermediate_size;
    j["num_key_value_heads"] = c.num_key_value_heads;
    j["head_dim"] = c.head_dim;
    write_rope(j, c.rope, form);
    if (c.model_type == "mistral") {
      j["sliding_window"] = or_null(c.sliding_window);
    } else {
      j["attention_bias"] = c.attention_bias;
      j["mlp_bias"] = c.mlp_bias;
    }
  }
  return j.dump(2, ' ', true) + "\n";
}

}  // namespace tern
