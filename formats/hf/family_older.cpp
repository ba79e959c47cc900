// The rows of the families before Llama: layer norms and plain MLPs.
// Source of all rows: formats/hf/family.cpp.

#include "formats/hf/family_impl.h"

#include <fmt/format.h>

namespace tern {

namespace {

constexpr HfNames kFalconNames{.tokens = "transformer.word_embeddings",
                               .attention_norm = "transformer.h.#.input_layernorm",
                               .qkv = "%transformer.h.#.self_attention.query_key_value",
                               .attention_out = "transformer.h.#.self_attention.dense",
                               .mlp_norm = "transformer.h.#.post_attention_layernorm",
                               .up = "transformer.h.#.mlp.dense_h_to_4h",
                               .down = "transformer.h.#.mlp.dense_4h_to_h",
                               .final_norm = "transformer.ln_f",
                               .projection = "lm_head"};
constexpr HfNames with_embed_norm(HfNames n) {
  n.embed_norm = "transformer.word_embeddings_layernorm";
  return n;
}

// Falcon says in several switches how many heads its keys have, and how its norms stand.
std::string settle_falcon(HfConfig& c) {
  if (!c.new_decoder_architecture) c.num_key_value_heads = c.multi_query ? 1 : c.num_attention_heads;
  if (c.new_decoder_architecture && !c.parallel_residual)
    return "parallel_attn: false, but new_decoder_architecture runs both beside each other";
  if (c.parallel_norms < 0 || c.parallel_norms > 2)
    return fmt::format("num_ln_in_parallel_attn: {}, expected 1 or 2", c.parallel_norms);
  if (c.parallel_norms == 0 && c.new_decoder_architecture) c.parallel_norms = 2;
  if (c.parallel_norms == 2 && !c.new_decoder_architecture)
    return "num_ln_in_parallel_attn: 2, but without new_decoder_architecture one norm is used";
  return "";
}

}  // namespace

// Longer than a screen: a table, one row per family.
void add_older_families(std::vector<HfFamily>& f) {
  const HfOption hidden_dropout{"hidden_dropout", &HfConfig::residual_dropout};
  f.push_back({.name = "gpt_neox",  // also Pythia
               .architecture = "GPTNeoXForCausalLM",
               .prefix = "gpt_neox.",
               .blocks = {.norm = HfNorm::layer, .gated = false},
               .defaults = {.context = 2048,
                            .norm_eps = 1e-5,
                            .hidden_act = "gelu",
                            .attention_bias = true,
                            .mlp_bias = true,
                            .bos = 0,
                            .eos = 2,
                            .partial_rotary = 0.25},
               .has_kv_heads = false,
               .has_head_dim = false,
               .renamed = {{"norm_eps", "layer_norm_eps"},
                           {"rope_theta", "rotary_emb_base", "rope_theta"},
                           {"partial_rotary_factor", "rotary_pct", "partial_rotary_factor"}},
               .options = {{"attention_bias", &HfConfig::attention_bias, 1},
                           {"use_parallel_residual", &HfConfig::parallel_residual, 1},
                           hidden_dropout},
               .harmless = {"classifier_dropout", "attention_probs_dropout_prob", "hidden_dropout_prob"},
               .names = {.tokens = "gpt_neox.embed_in",
                         .attention_norm = "gpt_neox.layers.#.input_layernorm",
                         .qkv = "%gpt_neox.layers.#.attention.query_key_value",
                         .attention_out = "gpt_neox.layers.#.attention.dense",
                         .mlp_norm = "gpt_neox.layers.#.post_attention_layernorm",
                         .up = "gpt_neox.layers.#.mlp.dense_h_to_4h",
                         .down = "gpt_neox.layers.#.mlp.dense_4h_to_h",
                         .final_norm = "gpt_neox.final_layer_norm",
                         .projection = "embed_out"}});
  f.push_back(
      {.name = "opt",
       .architecture = "OPTForCausalLM",
       .prefix = "model.",
       .blocks = {.norm = HfNorm::layer, .positions = HfPositions::learned, .gated = false, .position_offset = 2},
       .defaults =
           {.context = 2048, .norm_eps = 1e-5, .hidden_act = "relu", .tied = true, .bos = 2, .eos = 2, .pad = 1},
       .has_kv_heads = false,
       .has_head_dim = false,
       .renamed = {{"intermediate_size", "ffn_dim"},
                   {"hidden_act", "activation_function"},
                   {"norm_eps", ""},
                   {"initializer_range", "init_std"}},
       .options = {{"enable_bias", &HfConfig::attention_bias, 1},
                   {"enable_bias", &HfConfig::mlp_bias, 1},
                   {"dropout", &HfConfig::residual_dropout, 0.1}},
       .fixed = {{"do_layer_norm_before", true, "norms after the sum, which tern's opt does not have", true},
                 {"layer_norm_elementwise_affine", true, "norms without weights, which tern does not have", true},
                 {"_remove_final_layer_norm", false, "no last norm, which tern does not have"}},
       .harmless = {"layerdrop", "activation_dropout"},
       .hidden_again = {"word_embed_proj_dim"},
       .hidden_again_written = true,
       .names = {.tokens = "model.decoder.embed_tokens",
                 .positions = "model.decoder.embed_positions",
                 .attention_norm = "model.decoder.layers.#.self_attn_layer_norm",
                 .qkv = "model.decoder.layers.#.self_attn.q_proj,model.decoder.layers.#.self_attn.k_proj,"
                        "model.decoder.layers.#.self_attn.v_proj",
                 .attention_out = "model.decoder.layers.#.self_attn.out_proj",
                 .mlp_norm = "model.decoder.layers.#.final_layer_norm",
                 .up = "model.decoder.layers.#.fc1",
                 .down = "model.decoder.layers.#.fc2",
                 .final_norm = "model.decoder.final_layer_norm",
                 .projection = "lm_head"}});
  f.push_back(
      {.name = "bloom",
       .architecture = "BloomForCausalLM",
       .prefix = "transformer.",
       .blocks = {.norm = HfNorm::layer, .positions = HfPositions::alibi, .gated = false},
       .defaults = {.intermediate_factor = 4,
                    .context = 2048,
                    .norm_eps = 1e-5,
                    .hidden_act = "gelu_pytorch_tanh",
                    .attention_bias = true,
                    .mlp_bias = true,
                    .tied = true,
                    .bos = 1,
                    .eos = 2},
       .has_kv_heads = false,
       .has_head_dim = false,
       .renamed = {{"hidden_size", "hidden_size", "n_embed"},
                   {"num_hidden_layers", "n_layer", "num_hidden_layers"},
                   {"num_attention_heads", "n_head", "num_attention_heads"},
                   {"max_position_embeddings", "seq_length"},
                   {"intermediate_size", ""},
                   {"hidden_act", ""},
                   {"norm_eps", "layer_norm_epsilon"}},
       .options = {hidden_dropout},
       .fixed = {{"apply_residual_connection_post_layernorm", false,
                  "a residual stream of normed rows, which tern does not have"}},
       .harmless = {"slow_but_exact", "attention_softmax_in_fp32", "masked_softmax_fusion", "bias_dropout_fusion",
                    "offset_alibi", "skip_bias_add", "skip_bias_add_qkv", "unk_token_id", "n_inner"},
       .names = with_embed_norm(kFalconNames)});
  f.push_back({.name = "falcon",
               .architecture = "FalconForCausalLM",
               .prefix = "transformer.",
               .blocks = {.norm = HfNorm::layer, .gated = false, .shared_norm = true, .alibi_in_bf16 = true},
               .defaults = {.intermediate_factor = 4,
                            .context = 2048,
                            .norm_eps = 1e-5,
                            .hidden_act = "gelu",
                            .tied = true,
                            .bos = 11,
                            .eos = 11},
               .has_head_dim = false,
               .renamed = {{"num_key_value_heads", "num_kv_heads"},
                           {"intermediate_size", "ffn_hidden_size"},
                           {"hidden_act", "activation"},
                           {"norm_eps", "layer_norm_epsilon"}},
               .options = {{"bias", &HfConfig::attention_bias},
                           {"bias", &HfConfig::mlp_bias},
                           {"alibi", &HfConfig::alibi},
                           {"multi_query", &HfConfig::multi_query, 1},
                           {"new_decoder_architecture", &HfConfig::new_decoder_architecture},
                           {"parallel_attn", &HfConfig::parallel_residual, 1},
                           {.key = "num_ln_in_parallel_attn", .to = &HfConfig::parallel_norms, .zero_is_null = true},
                           hidden_dropout},
               .fixed = {{"apply_residual_connection_post_layernorm", false,
                          "a residual stream of normed rows, which tern does not have"}},
               .hidden_again = {"n_embed"},
               .settle = settle_falcon,
               .norms_of_two = {"transformer.h.#.ln_attn", "transformer.h.#.ln_mlp"},
               .names = kFalconNames});
}

}  // namespace tern
