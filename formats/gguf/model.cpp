#include "formats/gguf/model.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "formats/gguf/families.h"

namespace tern {
namespace {

// In this order a longer name stands before one it ends with. '#' is the layer.
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
};

// The layer's number where `pattern` has '#'; false if the name is another.
bool matches(std::string_view pattern, std::string_view name, std::string_view& layer) {
  const size_t hash = pattern.find('#');
  if (hash == std::string_view::npos) return pattern == name;
  const std::string_view before = pattern.substr(0, hash), after = pattern.substr(hash + 1);
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) || !name.ends_with(after)) return false;
  layer = name.substr(before.size(), name.size() - before.size() - after.size());
  return std::all_of(layer.begin(), layer.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

const GgufFamily* gguf_family(std::string_view model_type) {
  for (const GgufFamily& f : kFamilies)
    if (f.model_type == model_type) return &f;
  return nullptr;
}

const GgufFamily* gguf_family_of_architecture(std::string_view architecture, bool windowed) {
  const GgufFamily* first = nullptr;
  for (const GgufFamily& f : kFamilies) {
    if (f.architecture != architecture) continue;
    if (windowed && f.windowed) return &f;
    if (!first) first = &f;
  }
  return first;
}

std::string_view gguf_epsilon_key(const HfFamily& family) {
  return family.blocks.norm == HfNorm::layer ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
}

bool is_gguf_path(std::string_view path) { return path.ends_with(".gguf"); }

bool is_gguf_rope_table(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" || name == "rope_factors_short.weight";
}

std::vector<std::string> gguf_families() {
  std::vector<std::string> names;
  for (const GgufFamily& f : kFamilies) names.emplace_back(f.model_type);
  return names;
}

GgufPlace gguf_place(std::string_view model_type, std::string_view hf_name) {
  const GgufFamily* family = gguf_family(model_type);
  if (!family)
    throw Error(ErrorKind::usage, "GGUF: tern knows no names for family '{}' there; it knows {}", model_type,
                join(gguf_families(), ", "));
  const size_t dot = hf_name.rfind('.');
  const std::string_view stem = hf_name.substr(0, dot), suffix = dot == hf_name.npos ? "" : hf_name.substr(dot);
  for (const GgufName& n : family->names) {
    std::string_view layer;
    if (!matches(n.hf, stem, layer)) continue;
    GgufPlace place{.name = replace_all(std::string(n.gguf), "#", layer) + std::string(suffix), .interleaved = {}};
    if (family->interleaved && n.gguf.ends_with("attn_q")) place.interleaved = GgufPlace::Heads::queries;
    if (family->interleaved && n.gguf.ends_with("attn_k")) place.interleaved = GgufPlace::Heads::keys;
    return place;
  }
  throw Error(ErrorKind::usage, "GGUF: tern knows no name for tensor '{}' of family '{}' there", hf_name, model_type);
}

}  // namespace tern
