// The table of families that GGUF and tern share.
// Source: llama.cpp's converter, loader and graphs, of the source archive of llama-cpp-python 0.3.36.

#include "formats/gguf/families.h"

namespace tern {
namespace {

// '#' is the layer, '@' the expert.
constexpr GgufName kLlamaNames[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kGpt2Names[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.h.#.ln_1", "blk.#.attn_norm"},
    {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv"},
    {"transformer.h.#.attn.c_proj", "blk.#.attn_output"},
    {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
    {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
};

constexpr GgufName kOlmo2Names[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kPhi3Names[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};

constexpr GgufName kGemmaNames[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
    {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kNeoxNames[] = {
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"gpt_neox.layers.#.attention.query_key_value", "blk.#.attn_qkv"},
    {"gpt_neox.layers.#.attention.dense", "blk.#.attn_output"},
    {"gpt_neox.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
};
constexpr GgufName kFalconTensors[] = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
    {"transformer.h.#.ln_mlp", "blk.#.attn_norm"},
    {"transformer.h.#.ln_attn", "blk.#.attn_norm_2"},
    {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv"},
    {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
    {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kBloomNames[] = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.word_embeddings_layernorm", "token_embd_norm"},
    {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
    {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv"},
    {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
    {"transformer.h.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kMixtralExperts[] = {
    {"model.layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps"},
    {"model.layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps"},
    {"model.layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps"},
};
constexpr GgufName kQwenExperts[] = {
    {"model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps"},
    {"model.layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps"},
    {"model.layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps"},
    {"model.layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
    {"model.layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp"},
};

constexpr GgufName kGptOssNames[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks"},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
};
constexpr GgufName kGptOssExperts[] = {
    {"model.layers.#.mlp.router", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps,blk.#.ffn_up_exps"},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps"},
};

constexpr GgufFamily kFamilies[] = {
    {.model_type = "llama", .architecture = "llama", .names = kLlamaNames, .interleaved = true},
    {.model_type = "mistral", .architecture = "llama", .names = kLlamaNames, .interleaved = true, .windowed = true},
    {.model_type = "gpt2", .architecture = "gpt2", .names = kGpt2Names, .activation = "gelu_new"},
    {.model_type = "qwen2", .architecture = "qwen2", .names = kLlamaNames},
    {.model_type = "qwen3", .architecture = "qwen3", .names = kLlamaNames},
    {.model_type = "granite",
     .architecture = "granite",
     .names = kLlamaNames,
     .interleaved = true,
     .multipliers = true},
    {.model_type = "smollm3",
     .architecture = "smollm3",
     .names = kLlamaNames,
     .interleaved = true,
     .unturned_every = 4,
     .without_windows = true},
    {.model_type = "olmo2", .architecture = "olmo2", .names = kOlmo2Names, .untied = true, .without_biases = true},
    {.model_type = "phi3", .architecture = "phi3", .names = kPhi3Names},
    {.model_type = "gemma",
     .architecture = "gemma",
     .names = kLlamaNames,
     .activation = "gelu_pytorch_tanh",
     .without_biases = true,
     .tied = true,
     .plus_one = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .names = kGemmaNames,
     .activation = "gelu_pytorch_tanh",
     .without_biases = true,
     .tied = true,
     .plus_one = true,
     .full_every = 2,
     .layers_of_wide_heads = 46},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .names = kGemmaNames,
     .activation = "gelu_pytorch_tanh",
     .without_biases = true,
     .plus_one = true,
     .full_every = 6,
     .layers_of_wide_heads = 62},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .names = kNeoxNames,
     .activation = "gelu",
     .untied = true,
     .sorted = true,
     .switch_of_branches = "use_parallel_residual"},
    {.model_type = "falcon",
     .architecture = "falcon",
     .names = kFalconTensors,
     .activation = "gelu",
     .without_biases = true,
     .sorted = true},
    {.model_type = "bloom",
     .architecture = "bloom",
     .names = kBloomNames,
     .activation = "gelu_pytorch_tanh",
     .sorted = true},
    {.model_type = "mixtral",
     .architecture = "llama",
     .names = kLlamaNames,
     .names_of_experts = kMixtralExperts,
     .interleaved = true,
     .mixture = true},
    {.model_type = "qwen2_moe",
     .architecture = "qwen2moe",
     .names = kLlamaNames,
     .names_of_experts = kQwenExperts,
     .without_windows = true,
     .untied = true,
     .mixture = true,
     .normalized_experts = false},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .names = kLlamaNames,
     .names_of_experts = kQwenExperts,
     .without_windows = true,
     .without_biases = true,
     .mixture = true},
    {.model_type = "gpt_oss",
     .architecture = "gpt-oss",
     .names = kGptOssNames,
     .names_of_experts = kGptOssExperts,
     .mixture = true,
     .untruncated_yarn = true,
     .needs_window = true,
     .needs_expert_width = true,
     .full_every = 2},
};

}  // namespace

const GgufFamily* gguf_family(std::string_view model_type) {
  for (const GgufFamily& f : kFamilies)
    if (f.model_type == model_type) return &f;
  return nullptr;
}

const GgufFamily* gguf_family_of_architecture(std::string_view architecture, bool windowed, bool mixture) {
  const GgufFamily* first = nullptr;
  for (const GgufFamily& f : kFamilies) {
    if (f.architecture != architecture) continue;
    if (mixture && f.mixture) return &f;
    if (!mixture && windowed && f.windowed) return &f;
    if (!first) first = &f;
  }
  return first;
}

std::string_view gguf_epsilon_key(const HfFamily& family) {
  return family.blocks.norm == HfNorm::layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

std::vector<std::string> gguf_families() {
  std::vector<std::string> names;
  for (const GgufFamily& f : kFamilies) names.emplace_back(f.model_type);
  return names;
}

}  // namespace tern
