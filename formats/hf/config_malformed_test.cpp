// config.json files made by hand, each wrong in one way, and what the reader says.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "formats/format_test_support.h"
#include "formats/hf/config.h"

namespace tern {
namespace {

using nlohmann::json;

/// A key of a whole file replaced by JSON text (not parsed: NaN and doubled keys are wanted), or removed by "".
struct MalformedConfig {
  std::string family, key, value, says;
};

std::string file(const MalformedConfig& c) {
  std::vector<std::pair<std::string, std::string>> keys;
  if (c.family == "gpt2") {
    keys = {{"model_type", "\"gpt2\""}, {"vocab_size", "100"}, {"n_embd", "32"},
            {"n_layer", "2"},           {"n_head", "4"},       {"n_positions", "64"}};
  } else {
    keys = {{"model_type", '"' + c.family + '"'},
            {"vocab_size", "100"},
            {"hidden_size", "32"},
            {"intermediate_size", "48"},
            {"num_hidden_layers", "2"},
            {"num_attention_heads", "4"},
            {"num_key_value_heads", "2"},
            {"max_position_embeddings", "64"}};
    if (c.family.starts_with("deepseek")) {
      for (auto& [key, value] : keys)
        if (key == "num_key_value_heads") value = "4";
      keys.emplace_back("num_experts_per_tok", "6");
    }
    if (c.family == "gpt_neox") std::erase_if(keys, [](const auto& k) { return k.first == "num_key_value_heads"; });
  }
  std::string text = "{";
  bool done = c.key.empty();
  for (const auto& [key, value] : keys) {
    done |= key == c.key;
    if (key == c.key && c.value.empty()) continue;
    text += (text.size() > 1 ? ",\"" : "\"") + key + "\":" + (key == c.key ? c.value : value);
  }
  if (!done) text += ",\"" + c.key + "\":" + c.value;
  return text + "}";
}

std::string rope(std::string_view inside) { return "{" + std::string(inside) + "}"; }
std::string eight(std::string_view x) {
  std::string list = "[" + std::string(x);
  for (int i = 1; i < 4; ++i) list += "," + std::string(x);
  return list + "]";
}

const std::string kYarn = R"("rope_type":"yarn","factor":2)",
                  kLlama3 = R"("rope_type":"llama3","factor":8,"low_freq_factor":1,"high_freq_factor":4)",
                  kLong = R"("rope_type":"longrope","original_max_position_embeddings":32)";

std::vector<MalformedConfig> malformed_configs() {
  std::vector<MalformedConfig> c{
      // family
      {"llama", "model_type", "", "model_type: missing; expected one of llama, mistral, gpt2"},
      {"llama", "model_type", "null", "model_type: null, expected a string"},
      {"llama", "model_type", "1", "model_type: 1, expected a string"},
      {"llama", "model_type", "[\"llama\"]", "model_type: a list, expected a string"},
      {"llama", "model_type", "\"\"", "\"\" is not a family tern reads"},
      {"llama", "model_type", "\"lama\"", "\"lama\" is not a family tern reads; it reads llama, mistral"},
      {"llama", "model_type", "\"Llama\"", "\"Llama\" is not a family tern reads; it reads llama, mistral, gpt2"},
      {"llama", "model_type", "\"qwen\"", "\"qwen\" is not a family tern reads"},
      {"llama", "model_type", "\"t5\"", "\"t5\" is not a family tern reads"},
      {"llama", "model_type", "\"distilbert\"", "\"distilbert\" is not a family tern reads"},
      // quantized weights
      {"llama", "quantization_config", R"({"quant_method":"gptq","checkpoint_format":"marlin"})",
       "method \"gptq\" with checkpoint_format \"marlin\""},
      {"llama", "quantization_config", R"({"quant_method":"awq","version":"gemv"})", "method \"awq\" with version"},
      {"llama", "quantization_config", R"({"quant_method":"fp8"})", "quantized by method \"fp8\""},
      {"llama", "quantization_config", R"({"quant_method":"bitsandbytes","load_in_4bit":true})",
       "method \"bitsandbytes\" of type fp4"},
      {"llama", "quantization_config", R"({"quant_method":"bitsandbytes","load_in_8bit":true})", "in 8 bits"},
      {"llama", "quantization_config", R"({"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized"})",
       "method \"compressed-tensors\" with format"},
      {"llama", "quantization_config",
       R"({"quant_method":"compressed-tensors","format":"pack-quantized","config_groups":{"group_0":{"weights":{"type":"float"}}}})",
       "with weights of type \"float\""},
      {"llama", "quantization_config", "{}", "quantized by method \"unknown\""},
      {"llama", "quantization_config", "7", "quantized by method \"unknown\""},
      {"gpt2", "compression_config", R"({"x":1})", "compression_config"},
      // rotary
      {"llama", "rope_theta", "0", "rope_theta is 0, expected more than 1"},
      {"llama", "rope_theta", "-10000", "rope_theta is -10000"},
      {"llama", "rope_theta", "1", "rope_theta is 1, expected more than 1"},
      {"llama", "rope_theta", "\"10000\"", "rope_theta: \"10000\", expected a number"},
      {"llama", "rope_theta", "NaN", "NaN"},
      {"llama", "rope_theta", "true", "rope_theta: true, expected a number"},
      {"llama", "rope_scaling", "[]", "rope_scaling: an empty list, expected an object or null"},
      {"llama", "rope_scaling", "\"linear\"", "rope_scaling: \"linear\", expected an object or null"},
      {"llama", "rope_scaling", "2", "rope_scaling: 2, expected an object or null"},
      {"llama", "rope_parameters", "true", "rope_parameters: true, expected an object or null"},
      {"llama", "rope_scaling", rope(R"("type":"liner","factor":2)"), "did you mean 'linear'?"},
      {"llama", "rope_scaling", rope(R"("type":"su","factor":2)"), "\"su\" is not a rotary type tern has"},
      {"llama", "rope_scaling", rope(R"("type":"mrope","factor":2)"), "\"mrope\" is not a rotary type"},
      {"llama", "rope_scaling", rope(R"("type":"proportional")"), "\"proportional\" is not a rotary type"},
      {"llama", "rope_scaling", rope(R"("type":"none")"), "\"none\" is not a rotary type"},
      {"llama", "rope_scaling", rope(R"("type":null,"factor":2)"), "rope_scaling.type: null, expected a string"},
      {"llama", "rope_scaling", rope(R"("type":3,"factor":2)"), "rope_scaling.type: 3, expected a string"},
      {"llama", "rope_scaling", rope(R"("factor":2)"), "rope_scaling.rope_type: missing beside factor"},
      {"llama", "rope_scaling", rope(R"("type":"linear","rope_type":"dynamic","factor":2)"),
       "'dynamic', but type is 'linear'"},
      {"llama", "rope_scaling", rope(R"("type":"linear")"),
       "rope_scaling.factor: missing; rotary type 'linear' needs it"},
      {"llama", "rope_scaling", rope(R"("type":"dynamic")"),
       "rope_scaling.factor: missing; rotary type 'dynamic' needs it"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":0.5)"), "factor is 0.5, expected at least 1"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":0)"), "factor is 0, expected at least 1"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":-2)"), "factor is -2, expected at least 1"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":"2")"),
       "rope_scaling.factor: \"2\", expected a number"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":null)"),
       "rope_scaling.factor: null, expected a number"},
      {"llama", "rope_scaling", rope(R"("type":"linear","factor":2,"low_freq_factor":1)"),
       "unknown key in rope_scaling: \"low_freq_factor\""},
      {"llama", "rope_scaling", rope(R"("type":"linear","facter":2,"factor":2)"), "did you mean 'factor'?"},
      {"llama", "rope_parameters", rope(R"("rope_type":"default","rope_theta":10000,"factor":2)"),
       "unknown key in rope_parameters: \"factor\""},
      {"llama", "rope_parameters", rope(R"("full_attention":{"rope_theta":1e4})"), "rotary numbers per kind of layer"},
      {"llama", "rope_parameters", rope(R"("rope_theta":1e999)"), "byte"},
      {"llama", "rope_parameters", rope(R"("rope_type":"default","mrope_section":[1,2])"),
       "unknown key in rope_parameters: \"mrope_section\""},
      {"llama", "rope_parameters", rope(R"("rope_type":"default","partial_rotary_factor":0.5)"),
       "partial_rotary_factor: 0.5, but llama rotates whole heads"},
      {"llama", "partial_rotary_factor", "0.25", "partial_rotary_factor: 0.25, but llama rotates whole heads"},
      {"llama", "rope_scaling", rope(R"("rope_type":"yarn")"),
       "rope_scaling.factor: missing; rotary type 'yarn' needs it"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"beta_fast":0.5)"), "beta_fast is 0.5, expected at least 1"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"beta_slow":0)"), "beta_slow is 0, expected more than 0"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"attention_factor":0)"),
       "attention_factor is 0, expected more than 0"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"attention_factor":-1)"), "attention_factor is -1"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"mscale":-1)"), "mscale is -1, expected at least 0"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"truncate":1)"), "rope_scaling.truncate: 1, expected true or false"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"original_max_position_embeddings":0)"),
       "original_max_position_embeddings is 0, expected 2 to"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"original_max_position_embeddings":-8)"),
       "original_max_position_embeddings is -8"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"original_max_position_embeddings":2147483648)"),
       "original_max_position_embeddings is 2147483648"},
      {"llama", "rope_scaling", rope(kYarn + R"(,"original_max_position_embeddings":32.5)"),
       "32.5, expected a whole number"},
      {"llama", "rope_scaling", rope(R"("rope_type":"llama3","factor":8,"high_freq_factor":4)"),
       "low_freq_factor: missing; rotary type 'llama3' needs it"},
      {"llama", "rope_scaling", rope(R"("rope_type":"llama3","factor":8,"low_freq_factor":1)"),
       "high_freq_factor: missing"},
      {"llama", "rope_scaling", rope(R"("rope_type":"llama3","low_freq_factor":1,"high_freq_factor":4)"),
       "factor: missing"},
      {"llama", "rope_scaling", rope(R"("rope_type":"llama3","factor":8,"low_freq_factor":4,"high_freq_factor":4)"),
       "high_freq_factor is 4, expected more than"},
      {"llama", "rope_scaling", rope(R"("rope_type":"llama3","factor":8,"low_freq_factor":0,"high_freq_factor":4)"),
       "low_freq_factor is 0, expected more than 0"},
      {"llama", "rope_scaling", rope(kLlama3 + R"(,"beta_fast":1)"), "unknown key in rope_scaling: \"beta_fast\""},
      {"llama", "rope_scaling", rope(kLong), "short_factor: missing; rotary type 'longrope' needs it"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":" + eight("1")), "long_factor: missing"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":[1,1],\"long_factor\":" + eight("1")),
       "short_factor is a list of 2, expected 4 numbers"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":" + eight("1") + ",\"long_factor\":[]"),
       "long_factor is a list of 0, expected 4 numbers"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":" + eight("0") + ",\"long_factor\":" + eight("1")),
       "short_factor is 0 at one place"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":" + eight("1") + ",\"long_factor\":" + eight("-1")),
       "long_factor is -1 at one place"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":" + eight("\"1\"") + ",\"long_factor\":" + eight("1")),
       "short_factor: holds \"1\", expected numbers"},
      {"llama", "rope_scaling", rope(kLong + ",\"short_factor\":1,\"long_factor\":" + eight("1")),
       "short_factor: 1, expected a list of numbers"},
      {"llama", "head_dim", "7", "head_dim is 7, expected an even number"},
      {"mistral", "head_dim", "9", "head_dim is 9, expected an even number"},
      // sizes that do not fit each other
      {"llama", "num_attention_heads", "3", "hidden_size: 32 is no multiple of num_attention_heads 3"},
      {"llama", "num_attention_heads", "64", "hidden_size: 32 is no multiple of num_attention_heads 64"},
      {"mistral", "num_attention_heads", "3", "and no head_dim is given"},
      {"llama", "num_key_value_heads", "3", "num_attention_heads: 4 is no multiple of num_key_value_heads 3"},
      {"llama", "num_key_value_heads", "8", "num_attention_heads: 4 is no multiple of num_key_value_heads 8"},
      {"mistral", "num_key_value_heads", "", "no multiple of num_key_value_heads 8"},
      {"gpt2", "n_head", "5", "n_embd: 32 is no multiple of n_head 5"},
      {"llama", "head_dim", "1073741824", "expected a product below 2^31"},
      {"llama", "num_hidden_layers", "2147483647", "num_hidden_layers: 2147483647, expected 1 to 10000"},
      {"mistral", "num_hidden_layers", "10001", "num_hidden_layers: 10001, expected 1 to 10000"},
      {"gpt2", "n_layer", "2147483647", "n_layer: 2147483647, expected 1 to 10000"},
      {"mixtral", "num_hidden_layers", "2147483647", "num_hidden_layers: 2147483647, expected 1 to 10000"},
      {"deepseek_v3", "num_hidden_layers", "2147483647", "num_hidden_layers: 2147483647, expected 1 to 10000"},
      // activations, eps, dropouts
      {"llama", "hidden_act", "\"relu6\"", "\"relu6\" is not an activation tern has; it has silu"},
      {"llama", "hidden_act", "\"sliu\"", "did you mean 'silu'?"},
      {"llama", "hidden_act", "null", "hidden_act: null, expected a string"},
      {"llama", "hidden_act", "{}", "hidden_act: an object, expected a string"},
      {"gpt2", "activation_function", "\"gelu_neu\"", "did you mean 'gelu_new'?"},
      {"llama", "rms_norm_eps", "0", "rms_norm_eps: 0, expected more than 0"},
      {"llama", "rms_norm_eps", "-1e-6", "rms_norm_eps: -1e-06"},
      {"llama", "rms_norm_eps", "2", "rms_norm_eps: 2, expected more than 0 and at most 1"},
      {"llama", "rms_norm_eps", "\"1e-6\"", "rms_norm_eps: \"1e-6\", expected a number"},
      {"llama", "rms_norm_eps", "null", "rms_norm_eps: null, expected a number"},
      {"llama", "rms_norm_eps", "Infinity", "Infinity"},
      {"gpt2", "layer_norm_epsilon", "0", "layer_norm_epsilon: 0, expected more than 0"},
      {"gpt2", "layer_norm_epsilon", "[1e-5]", "layer_norm_epsilon: a list, expected a number"},
      {"llama", "initializer_range", "-0.02", "initializer_range: -0.02, expected 0 to 1"},
      {"llama", "initializer_range", "1.5", "initializer_range: 1.5, expected 0 to 1"},
      {"llama", "initializer_range", "\"0.02\"", "initializer_range: \"0.02\", expected a number"},
      {"llama", "attention_dropout", "1", "attention_dropout: 1, expected at least 0 and less than 1"},
      {"llama", "attention_dropout", "-0.1", "attention_dropout: -0.1"},
      {"gpt2", "attn_pdrop", "1.5", "attn_pdrop: 1.5"},
      {"gpt2", "resid_pdrop", "-1", "resid_pdrop: -1"},
      {"gpt2", "embd_pdrop", "true", "embd_pdrop: true, expected a number"},
      // switches
      {"llama", "tie_word_embeddings", "1", "tie_word_embeddings: 1, expected true or false"},
      {"llama", "tie_word_embeddings", "null", "tie_word_embeddings: null, expected true or false"},
      {"llama", "tie_word_embeddings", "\"true\"", "tie_word_embeddings: \"true\", expected true or false"},
      {"llama", "attention_bias", "0", "attention_bias: 0, expected true or false"},
      {"llama", "mlp_bias", "\"no\"", "mlp_bias: \"no\", expected true or false"},
      {"mistral", "attention_bias", "true", "attention_bias: true, and mistral has no biases"},
      {"mistral", "mlp_bias", "true", "mlp_bias: true, and mistral has no biases"},
      {"llama", "sliding_window", "4096", "sliding_window: 4096, but a llama model has none"},
      {"mistral", "sliding_window", "0", "sliding_window: 0, expected 1 to"},
      {"mistral", "sliding_window", "-1", "sliding_window: -1, expected 1 to"},
      {"mistral", "sliding_window", "\"4096\"", "sliding_window: \"4096\", expected a whole number"},
      {"mistral", "sliding_window", "2147483648", "sliding_window: 2147483648"},
      {"mistral", "layer_types", R"(["full_attention","sliding_attention"])", "layer_types: holds \"full_attention\""},
      {"llama", "layer_types", R"(["sliding_attention"])", "every layer of this model has full_attention"},
      {"llama", "is_encoder_decoder", "true", "is_encoder_decoder: true"},
      {"gpt2", "scale_attn_weights", "false", "scale_attn_weights: false"},
      {"gpt2", "scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx: true"},
      {"gpt2", "add_cross_attention", "true", "add_cross_attention: true"},
      {"gpt2", "pruned_heads", R"({"0":[1]})", "pruned_heads: names heads taken out"},
      {"llama", "per_layer_config", R"({"0":{"hidden_size":8}})", "per_layer_config: gives layers different sizes"},
      // what some families add
      {"gemma2", "layer_types", R"(["sliding_attention"])", "a list of 1, expected one of each of 2 layers"},
      {"gemma2", "layer_types", R"(["full","sliding_attention"])", "holds \"full\", expected sliding_attention or"},
      {"gemma2", "sliding_window_pattern", "0", "sliding_window_pattern: 0, expected at least 1"},
      {"gemma2", "attn_logit_softcapping", "0", "attn_logit_softcapping: 0, expected more than 0"},
      {"gemma2", "query_pre_attn_scalar", "-1", "query_pre_attn_scalar: -1, expected more than 0"},
      {"gemma2", "use_bidirectional_attention", "true", "attention in both directions"},
      {"gemma3_text", "rope_parameters", R"({"full_attention":{"rope_theta":1e4},"sliding":{}})",
       "unknown key in rope_parameters: \"sliding\""},
      {"gemma3_text", "rope_parameters", R"({"full_attention":3})", "full_attention"},
      {"qwen2", "head_dim", "9", "head_dim: 9, but qwen2's is hidden_size / num_attention_heads"},
      {"qwen2", "use_sliding_window", "1", "use_sliding_window: 1, expected true or false"},
      {"qwen2", "layer_types", R"(["sliding_attention","full_attention"])", "no sliding_window is set"},
      {"qwen3", "num_hidden_layers", "2147483647", "num_hidden_layers: 2147483647, expected 1 to 10000"},
      {"smollm3", "no_rope_layers", "[1]", "expected a list of one 0 or 1 for each of 2 layers"},
      {"smollm3", "no_rope_layers", "[1,2]", "no_rope_layers: holds 2, expected 0 or 1"},
      {"smollm3", "no_rope_layer_interval", "0", "no_rope_layer_interval: 0, expected at least 1"},
      {"granite", "residual_multiplier", "0", "residual_multiplier: 0, expected a number that is not 0"},
      {"granite", "attention_multiplier", "\"1\"", "attention_multiplier: \"1\", expected a number"},
      {"gpt_neox", "rotary_pct", "0.01", "of head_dim 8 is 0 elements, expected an even number"},
      {"gpt_neox", "rotary_pct", "2", "partial_rotary_factor is 2, expected more than 0 and at most 1"},
      {"falcon", "num_ln_in_parallel_attn", "3", "num_ln_in_parallel_attn: 3, expected 1 or 2"},
      {"falcon", "new_decoder_architecture", "1", "new_decoder_architecture: 1, expected true or false"},
      {"bloom", "n_embed", "8", "n_embed: 8, but hidden_size is 32"},
      {"phi3", "lm_head_bias", "true", "lm_head_bias: true, and phi3 has no biases"},
      // dtype
      {"llama", "dtype", "\"float8_e4m3fn\"", "dtype: \"float8_e4m3fn\", expected float32"},
      {"llama", "torch_dtype", "\"torch.float16\"", "torch_dtype: \"torch.float16\", expected float32"},
      {"llama", "torch_dtype", "16", "torch_dtype: 16, expected a string"},
      {"llama", "dtype", "\"auto\"", "dtype: \"auto\""},
      // token ids
      {"llama", "eos_token_id", "\"</s>\"", "eos_token_id: \"</s>\", expected token ids"},
      {"llama", "eos_token_id", "2.0", "eos_token_id: 2.0, expected token ids"},
      {"llama", "eos_token_id", "2147483648", "eos_token_id: 2147483648, expected token ids"},
      {"llama", "eos_token_id", "9223372036854775808", "eos_token_id: 9223372036854775808"},
      {"llama", "eos_token_id", "-2147483649", "eos_token_id: -2147483649"},
      {"llama", "eos_token_id", "[1,\"2\"]", "eos_token_id: \"2\", expected token ids"},
      {"llama", "eos_token_id", "[1,null]", "eos_token_id: null, expected token ids"},
      {"llama", "eos_token_id", "true", "eos_token_id: true"},
      {"llama", "bos_token_id", "[1,2]", "bos_token_id: a list of 2, expected one token id or null"},
      {"llama", "bos_token_id", "{}", "bos_token_id: an object"},
      {"gpt2", "pad_token_id", "\"x\"", "pad_token_id: \"x\""},
      // heads that are no language model
      {"llama", "architectures", "[\"LlamaForSequenceClassification\"]",
       "\"LlamaForSequenceClassification\" is no causal language model"},
      {"llama", "architectures", "[\"LlamaForCausalLMEagle\"]", "is no causal language model"},
      {"gpt2", "architectures", "[\"GPT2DoubleHeadsModel\"]", "is no causal language model"},
      {"bert", "architectures", "[\"BertForAudio\"]",
       "\"BertForAudio\" is no head that tern knows on an encoder; it reads the encoder of ...Model, ...ForMaskedLM"},
      {"llama", "architectures", "[1]", "architectures: holds 1, expected strings"},
      {"llama", "architectures", "{}", "architectures: an object, expected a list of strings"},
      // experts
      {"mixtral", "num_local_experts", "0", "num_local_experts: 0, expected 1 to 65536"},
      {"mixtral", "num_local_experts", "70000", "num_local_experts: 70000, expected 1 to 65536"},
      {"mixtral", "num_experts_per_tok", "9", "num_experts_per_tok: 9, expected 1 to 8"},
      {"mixtral", "num_experts_per_tok", "0", "num_experts_per_tok: 0, expected 1 to 8"},
      {"mixtral", "num_experts", "\"8\"", "num_experts: \"8\", expected a whole number"},
      {"mixtral", "router_jitter_noise", "1", "router_jitter_noise: 1, expected at least 0 and less than 1"},
      {"mixtral", "norm_topk_prob", "true", "unknown key \"norm_topk_prob\""},
      {"mixtral", "expert_size", "3", "unknown key \"expert_size\""},
      {"qwen2_moe", "moe_intermediate_size", "0", "moe_intermediate_size: 0, expected 1 to 2147483647"},
      {"qwen2_moe", "shared_expert_intermediate_size", "-1", "shared_expert_intermediate_size: -1, expected 1 to"},
      {"qwen2_moe", "decoder_sparse_step", "0", "decoder_sparse_step: 0, expected at least 1"},
      {"qwen2_moe", "mlp_only_layers", "[2]", "mlp_only_layers: holds 2, expected layers, 0 to 1"},
      {"qwen2_moe", "mlp_only_layers", "[-1]", "mlp_only_layers: holds -1, expected layers, 0 to 1"},
      {"qwen2_moe", "mlp_only_layers", "[1.5]", "mlp_only_layers: holds 1.5, expected layers"},
      {"qwen2_moe", "mlp_only_layers", "1", "mlp_only_layers: 1, expected a list of layers"},
      {"qwen2_moe", "norm_topk_prob", "1", "norm_topk_prob: 1, expected true or false"},
      {"qwen3_moe", "shared_expert_intermediate_size", "8", "unknown key \"shared_expert_intermediate_size\""},
      {"qwen3_moe", "use_sliding_window", "3", "use_sliding_window: 3, expected true or false"},
      {"qwen3_moe", "num_experts_per_tok", "200", "num_experts_per_tok: 200, expected 1 to 128"},
      // latent attention and DeepSeek's router
      {"deepseek_v2", "kv_lora_rank", "0", "kv_lora_rank: 0, expected 1 to 2147483647"},
      {"deepseek_v2", "q_lora_rank", "-1", "q_lora_rank: -1, expected 1 to 2147483647"},
      {"deepseek_v2", "qk_rope_head_dim", "7", "head_dim is 7, expected an even number"},
      {"deepseek_v2", "v_head_dim", "193",
       "v_head_dim: 193, expected 1 to 192, the length of a key (qk_nope_head_dim 128 and qk_rope_head_dim 64)"},
      {"deepseek_v2", "qk_nope_head_dim", "2147483647", "4 heads of it and qk_rope_head_dim 64 stay below 2^31"},
      {"deepseek_v2", "moe_intermediate_size", "-9223372036854775808", "moe_intermediate_size: -9223372036854775808"},
      {"deepseek_v2", "n_shared_experts", "9223372036854775807", "n_shared_experts: 9223372036854775807, expected"},
      {"deepseek_v2", "head_dim", "32", "head_dim: 32, but qk_rope_head_dim is 64"},
      {"deepseek_v2", "num_key_value_heads", "2", "num_key_value_heads: 2, but each of 4 heads has its own keys"},
      {"deepseek_v2", "num_experts_per_tok", "null", "num_experts_per_tok: 0, expected 1 to 64"},
      {"deepseek_v2", "norm_topk_prob", "true", "norm_topk_prob: true, which transformers' model does not follow"},
      {"deepseek_v2", "topk_method", "\"noaux_tc\"", "topk_method: \"noaux_tc\", expected greedy or"},
      {"deepseek_v2", "scoring_func", "\"sigmoid\"",
       "scoring_func: \"sigmoid\", but deepseek_v2's router takes a softmax"},
      {"deepseek_v2", "moe_layer_freq", "2", "moe_layer_freq: 2, layers without experts"},
      {"deepseek_v2", "rope_interleave", "true", "unknown key \"rope_interleave\""},
      {"deepseek_v3", "n_group", "7", "n_group: 7, which does not part 256 experts into equal groups of two or more"},
      {"deepseek_v3", "topk_group", "9", "topk_group: 9, expected 1 to 8"},
      {"deepseek_v3", "topk_method", "\"greedy\"", "topk_method: \"greedy\", but deepseek_v3 chooses by noaux_tc"},
      {"deepseek_v3", "num_experts_per_tok", "200", "num_experts_per_tok: 200, more than the 128 experts of 4 groups"},
      {"deepseek_v3", "n_shared_experts", "0", "n_shared_experts: 0, expected at least 1"},
      {"deepseek_v3", "first_k_dense_replace", "-1", "first_k_dense_replace: -1, expected at least 0"},
      {"deepseek_v3", "num_nextn_predict_layers", "5000", "num_nextn_predict_layers: 5000, expected 0 to 1000"},
      {"llama", "kv_lora_rank", "512", "unknown key \"kv_lora_rank\""},
      // unknown keys
      {"llama", "hiden_size", "32", "unknown key \"hiden_size\"; did you mean 'hidden_size'?"},
      {"llama", "num_experts", "8", "unknown key \"num_experts\""},
      {"llama", "rope_tetha", "1", "did you mean 'rope_theta'?"},
      {"llama", "Vocab_Size", "100", "did you mean 'vocab_size'?"},
      {"llama", "logit_scale", "1", "unknown key \"logit_scale\""},
      {"llama", "embedding_multiplier", "2", "unknown key \"embedding_multiplier\""},
      {"llama", "attn_logit_softcapping", "50", "unknown key \"attn_logit_softcapping\""},
      {"gpt2", "n_emb", "32", "did you mean 'n_embd'?"},
      {"gpt2", "rope_theta", "10000", "unknown key \"rope_theta\""},
      {"gpt2", "num_key_value_heads", "2", "unknown key \"num_key_value_heads\""},
      {"llama", std::string(3000, 'k'), "1", "(3000 bytes)"},
      {"llama", "\\u001b[2J", "1", "\\u001b[2J"},
      // gpt2 under two names
      {"gpt2", "hidden_size", "64", "hidden_size: 64, but n_embd is 32; keep one of them"},
      {"gpt2", "num_hidden_layers", "3", "num_hidden_layers: 3, but n_layer is 2"},
      {"gpt2", "n_inner", "0", "n_inner: 0, expected 1 to"},
      {"gpt2", "n_inner", "-128", "n_inner: -128"},
      {"gpt2", "n_inner", "\"4x\"", "n_inner: \"4x\", expected a whole number"},
  };
  // Every size of every family: missing, wrong type, 0, negative, 2^31, 2^63, 2^64, a float, NaN.
  const std::vector<std::pair<std::string, std::vector<std::string>>> sizes{
      {"llama", {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}},
      {"mistral", {"vocab_size", "intermediate_size"}},
      {"gpt2", {"vocab_size", "n_embd", "n_layer", "n_head", "n_positions"}}};
  for (const auto& [family, keys] : sizes)
    for (const std::string& key : keys) {
      c.push_back({family, key, "", key + ": missing; a " + family + " model needs it"});
      for (const auto& [value, says] :
           {std::pair{"0", ": 0, expected 1 to 2147483647"}, std::pair{"-1", ": -1, expected 1 to"},
            std::pair{"2147483648", ": 2147483648, expected 1 to"}, std::pair{"9223372036854775808", "below 2^63"},
            std::pair{"18446744073709551616", "expected a whole number"},
            std::pair{"64.0", ": 64.0, expected a whole number"},
            std::pair{"\"64\"", ": \"64\", expected a whole number"},
            std::pair{"null", ": null, expected a whole number"},
            std::pair{"[64]", ": a list, expected a whole number"}, std::pair{"NaN", "NaN"}})
        c.push_back({family, key, value, (says[0] == ':' ? key : "") + says});
    }
  for (const char* key : {"num_key_value_heads", "head_dim", "max_position_embeddings"})
    for (const auto& [value, says] :
         {std::pair{"0", ": 0, expected 1 to 2147483647"}, std::pair{"-4", ": -4, expected 1 to"},
          std::pair{"2147483648", ": 2147483648, expected 1 to"}, std::pair{"1.5", ": 1.5, expected a whole number"}})
      c.push_back({"llama", key, value, key + std::string(says)});
  return c;
}

TEST(HfConfigMalformed, EachIsAnErrorThatSaysWhat) {
  const std::vector<MalformedConfig> all = malformed_configs();
  ASSERT_GE(all.size(), 150u);
  for (const MalformedConfig& c : all) {
    const std::string text = file(c);
    EXPECT_TRUE(throws(ErrorKind::bad_file, c.says, [&] { parse_hf_config(text, "dir/config.json"); }))
        << text.substr(0, 300);
    EXPECT_TRUE(throws(ErrorKind::bad_file, "dir/config.json", [&] { parse_hf_config(text, "dir/config.json"); }))
        << text.substr(0, 300);
  }
}

TEST(HfConfigMalformed, WhatIsNoObjectIsSaidPlainly) {
  std::string deep;
  for (int i = 0; i < 10000; ++i) deep += "{\"a\":";
  const std::vector<std::pair<std::string, std::string>> files{
      {"", "byte"},
      {"   ", "byte"},
      {"null", "null, expected an object"},
      {"[]", "an empty list, expected an object"},
      {"3", "3, expected an object"},
      {"\"llama\"", "\"llama\", expected an object"},
      {"{", "closed"},
      {"{}", "model_type: missing"},
      {"{}{}", "after the end"},
      {"{\"model_type\":\"llama\",}", "byte"},
      {deep, "64"},
      {"\xff\xfe{\0}", "byte"},
      {"\xEF\xBB\xBF{}", "byte order mark"},
      {"{\"model_type\":\"llama\",\"model_type\":\"llama\"}", "appears twice"},
      {"{'model_type':'llama'}", "byte"},
      {"model_type: llama\n", "byte"},
      {"{\"model_type\":\"lla\xffma\"}", "UTF-8"},
      {std::string(5 << 20, ' '), "bytes of JSON"}};
  for (const auto& [text, says] : files)
    EXPECT_TRUE(throws(ErrorKind::bad_file, says, [&] { parse_hf_config(text, "c.json"); })) << text.substr(0, 100);
}

TEST(HfConfigMalformed, TwoFormsThatDisagreeAreNotGuessedBetween) {
  const std::string start =
      R"({"model_type":"llama","vocab_size":100,"hidden_size":32,"intermediate_size":48,"num_hidden_layers":2,)"
      R"("num_attention_heads":4,"max_position_embeddings":64,)";
  const auto with = [&](std::string_view rest) {
    return [=] { parse_hf_config(start + std::string(rest) + "}", "c"); };
  };
  EXPECT_TRUE(throws(ErrorKind::bad_file, "rope_theta: 20000, but rope_theta outside says 10000",
                     with(R"("rope_theta":10000,"rope_parameters":{"rope_type":"default","rope_theta":20000})")));
  EXPECT_TRUE(throws(
      ErrorKind::bad_file, "rope_scaling: differs from rope_parameters",
      with(R"("rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"linear","factor":4})")));
  EXPECT_TRUE(throws(ErrorKind::bad_file, "torch_dtype: 'float16', but dtype is 'bfloat16'",
                     with(R"("torch_dtype":"float16","dtype":"bfloat16")")));
  EXPECT_NO_THROW(
      with(R"("rope_scaling":{"type":"linear","factor":2},"rope_parameters":{"rope_type":"linear","factor":2})")());
  EXPECT_NO_THROW(with(R"("torch_dtype":"float16","dtype":"float16")")());
  EXPECT_TRUE(throws(ErrorKind::bad_file, "more than tern counts", [] {
    parse_hf_config(
        R"({"model_type":"llama","vocab_size":2147483647,"hidden_size":2147483644,"intermediate_size":2147483647,)"
        R"("num_hidden_layers":10000,"num_attention_heads":4,"head_dim":2,"max_position_embeddings":64})",
        "c");
  }));
}

// Sizes that are each in their range and together more than 64 bits count.
TEST(HfConfigMalformed, EverySizeTakesPartInWhatIsCounted) {
  const json latent = json::parse(
      R"({"model_type":"deepseek_v2","vocab_size":9,"hidden_size":2147483647,"intermediate_size":1,)"
      R"("num_hidden_layers":1,"num_attention_heads":1,"num_key_value_heads":1,"max_position_embeddings":8,)"
      R"("n_routed_experts":1,"num_experts_per_tok":1,"moe_intermediate_size":1,"n_shared_experts":1,)"
      R"("first_k_dense_replace":0,"n_group":1,"topk_group":1,"q_lora_rank":null,"kv_lora_rank":1,)"
      R"("qk_nope_head_dim":2,"qk_rope_head_dim":2,"v_head_dim":2})");
  const json bert = json::parse(
      R"({"model_type":"bert","vocab_size":9,"hidden_size":2147483647,"intermediate_size":1,"num_hidden_layers":1,)"
      R"("num_attention_heads":1,"max_position_embeddings":1,"type_vocab_size":1})");
  const json mixture = json::parse(
      R"({"model_type":"mixtral","vocab_size":9,"hidden_size":8,"intermediate_size":1,"num_hidden_layers":2,)"
      R"("num_attention_heads":1,"num_key_value_heads":1,"max_position_embeddings":8,"num_experts_per_tok":1})");
  EXPECT_NO_THROW(parse_hf_config(latent.dump(), "c"));
  EXPECT_NO_THROW(parse_hf_config(mixture.dump(), "c"));
  const auto refused = [](json file, const json& change, const char* says) {
    file.update(change);
    return throws(ErrorKind::bad_file, says, [&] { parse_hf_config(file.dump(), "c"); });
  };
  constexpr int64_t kMost = 2147483647;
  const char* more = "more than tern counts";
  EXPECT_TRUE(refused(latent, {{"kv_lora_rank", kMost}}, more));
  EXPECT_TRUE(refused(latent, {{"q_lora_rank", kMost}}, more));
  EXPECT_TRUE(refused(latent, {{"qk_nope_head_dim", kMost - 2}}, more));
  EXPECT_TRUE(refused(latent, {{"qk_rope_head_dim", kMost - 3}}, more));
  EXPECT_TRUE(refused(
      latent, {{"hidden_size", 8}, {"qk_nope_head_dim", 1 << 30}, {"v_head_dim", 1 << 30}, {"kv_lora_rank", kMost}},
      more));
  EXPECT_TRUE(refused(latent, {{"moe_intermediate_size", kMost}}, more));
  EXPECT_TRUE(refused(latent, {{"n_shared_experts", kMost}}, more));
  EXPECT_TRUE(refused(latent, {{"intermediate_size", kMost}, {"first_k_dense_replace", 1}}, more));
  EXPECT_TRUE(refused(latent, {{"vocab_size", kMost}}, more));
  EXPECT_TRUE(refused(bert, {{"type_vocab_size", kMost}}, more));
  EXPECT_TRUE(refused(bert, {{"hidden_size", 64}, {"max_position_embeddings", kMost}}, more));
  EXPECT_TRUE(refused(mixture, {{"max_position_embeddings", kMost}, {"intermediate_size", 1 << 20}},
                      "max_position_embeddings: 2147483647 positions of a model of this size"));
  EXPECT_TRUE(refused(mixture, {{"num_local_experts", 65536}, {"num_hidden_layers", 3}},
                      "3 layers of 65536 experts are 196608 experts, expected at most 131072"));
}

}  // namespace
}  // namespace tern
