#pragma once
// What the files of the table of families share: names of weights that many have, and the parts of the table. Each part
// adds its rows.

#include <vector>

#include "formats/hf/family.h"

namespace tern {

inline constexpr HfNames kLlamaNames{
    .tokens = "model.embed_tokens",
    .attention_norm = "model.layers.#.input_layernorm",
    .qkv = "model.layers.#.self_attn.q_proj,model.layers.#.self_attn.k_proj,model.layers.#.self_attn.v_proj",
    .attention_out = "model.layers.#.self_attn.o_proj",
    .mlp_norm = "model.layers.#.post_attention_layernorm",
    .up = "model.layers.#.mlp.gate_proj,model.layers.#.mlp.up_proj",
    .down = "model.layers.#.mlp.down_proj",
    .final_norm = "model.norm",
    .projection = "lm_head"};

/// The same names, with norms of queries and keys.
constexpr HfNames with_head_norms(HfNames n) {
  n.query_norm = "model.layers.#.self_attn.q_norm", n.key_norm = "model.layers.#.self_attn.k_norm";
  return n;
}

inline const HfOption kAttentionBias{"attention_bias", &HfConfig::attention_bias},
    kMlpBias{"mlp_bias", &HfConfig::mlp_bias};

void add_older_families(std::vector<HfFamily>&);       // layer norms and plain MLPs: before Llama
void add_later_families(std::vector<HfFamily>&);       // Llama's shape under other keys, names and norms
void add_families_of_experts(std::vector<HfFamily>&);  // experts in the place of MLPs
void add_later_mixtures(std::vector<HfFamily>&);       // experts behind Llama's attention, windows of mixed widths
void add_encoders(std::vector<HfFamily>&);             // BERT and its like

}  // namespace tern
