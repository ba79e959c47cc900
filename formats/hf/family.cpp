#include "formats/hf/family.h"

#include <fmt/format.h>

#include "base/error.h"
#include "formats/hf/family_impl.h"

// Source: the configuration and model classes of transformers 5.23 (keys, defaults, names of parameters), observed by
// running them; dev/golden/families.py compares every row with it.

namespace tern {
namespace {

constexpr HfNames with_norms_after(HfNames n) {
  n.attention_norm = n.mlp_norm = "";
  n.attention_post_norm = "model.layers.#.post_attention_layernorm";
  n.mlp_post_norm = "model.layers.#.post_feedforward_layernorm";
  return n;
}
constexpr HfNames with_norms_around(HfNames n) {
  n.attention_post_norm = "model.layers.#.post_attention_layernorm";
  n.mlp_norm = "model.layers.#.pre_feedforward_layernorm";
  n.mlp_post_norm = "model.layers.#.post_feedforward_layernorm";
  return n;
}
constexpr HfNames with_fused_matrices(HfNames n) {
  n.qkv = "model.layers.#.self_attn.qkv_proj", n.up = "model.layers.#.mlp.gate_up_proj";
  return n;
}

// Longer than a screen: a table, one row per family.
std::vector<HfFamily> make_families() {
  std::vector<HfFamily> f;
  f.push_back({.name = "llama",  // also SmolLM and SmolLM2
               .architecture = "LlamaForCausalLM",
               .prefix = "model.",
               .defaults = {.context = 2048, .bos = 1, .eos = 2},
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias, kMlpBias},
               .fixed = {{"rope_interleaved", false, "pairs of neighbours turned, which tern does not have"}},
               .harmless = {"is_llama_config"},
               .names = kLlamaNames});
  f.push_back({.name = "mistral",
               .architecture = "MistralForCausalLM",
               .prefix = "model.",
               .blocks = {.windows = HfWindows::every},
               .defaults = {.kv_heads = 8, .context = 131072, .bos = 1, .eos = 2, .window = 4096},
               .any_width = true,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .fixed = {{"attention_bias", false, "and mistral has no biases"},
                         {"mlp_bias", false, "and mistral has no biases"}},
               .names = kLlamaNames});
  f.push_back(
      {.name = "gpt2",
       .architecture = "GPT2LMHeadModel",
       .prefix = "transformer.",
       .blocks =
           {.norm = HfNorm::layer, .positions = HfPositions::learned, .gated = false, .scaled_residual_init = true},
       .defaults = {.intermediate_factor = 4,
                    .norm_eps = 1e-5,
                    .hidden_act = "gelu_new",
                    .attention_dropout = 0.1,
                    .attention_bias = true,
                    .mlp_bias = true,
                    .tied = true,
                    .bos = 50256,
                    .eos = 50256},
       .has_kv_heads = false,
       .has_head_dim = false,
       .renamed = {{"hidden_size", "n_embd", "hidden_size"},
                   {"num_hidden_layers", "n_layer", "num_hidden_layers"},
                   {"num_attention_heads", "n_head", "num_attention_heads"},
                   {"max_position_embeddings", "n_positions", "max_position_embeddings"},
                   {"intermediate_size", "n_inner"},
                   {"hidden_act", "activation_function"},
                   {"norm_eps", "layer_norm_epsilon"},
                   {"attention_dropout", "attn_pdrop"}},
       .options = {{"resid_pdrop", &HfConfig::residual_dropout, 0.1},
                   {"embd_pdrop", &HfConfig::embedding_dropout, 0.1}},
       .fixed = {{"scale_attn_weights", true, "attention without 1/sqrt(head size), which tern does not have", true},
                 {"scale_attn_by_inverse_layer_idx", false, "attention scaled by layer, which tern does not have"},
                 {"add_cross_attention", false, "cross-attention, which tern does not have"}},
       // the heads for classification, and arithmetic in a wider type
       .harmless = {"n_ctx", "n_special", "predict_special_tokens", "reorder_and_upcast_attn", "summary_activation",
                    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj"},
       .names = {.tokens = "transformer.wte",
                 .positions = "transformer.wpe",
                 .attention_norm = "transformer.h.#.ln_1",
                 .qkv = "^transformer.h.#.attn.c_attn",
                 .attention_out = "^transformer.h.#.attn.c_proj",
                 .mlp_norm = "transformer.h.#.ln_2",
                 .up = "^transformer.h.#.mlp.c_fc",
                 .down = "^transformer.h.#.mlp.c_proj",
                 .final_norm = "transformer.ln_f",
                 .projection = "lm_head"}});
  f.push_back({.name = "qwen2",
               .architecture = "Qwen2ForCausalLM",
               .prefix = "model.",
               .blocks = {.out_bias = false, .windows = HfWindows::switched},
               .defaults = {.context = 32768, .attention_bias = true, .window = 4096},
               .has_head_dim = false,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .names = kLlamaNames});
  f.push_back({.name = "qwen3",
               .architecture = "Qwen3ForCausalLM",
               .prefix = "model.",
               .blocks = {.head_norm = HfHeadNorm::head, .windows = HfWindows::switched},
               .defaults = {.kv_heads = 32, .head_dim = 128, .context = 32768, .window = 4096},
               .any_width = true,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias},
               .names = with_head_norms(kLlamaNames)});
  f.push_back({.name = "smollm3",
               .architecture = "SmolLM3ForCausalLM",
               .prefix = "model.",
               .blocks = {.windows = HfWindows::switched, .unturned_every = 4},
               .defaults = {.kv_heads = 4,
                            .context = 32768,
                            .tied = true,
                            .bos = 128000,
                            .eos = 128001,
                            .pad = 128004,
                            .rope_theta = 2000000},
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias, kMlpBias},
               .names = kLlamaNames});
  f.push_back({.name = "olmo2",
               .architecture = "Olmo2ForCausalLM",
               .prefix = "model.",
               .blocks = {.place = HfNormPlace::after, .head_norm = HfHeadNorm::row},
               .defaults = {.context = 2048, .norm_eps = 1e-5, .eos = 50279, .pad = 1},
               .has_head_dim = false,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias},
               .names = with_norms_after(with_head_norms(kLlamaNames))});
  f.push_back({.name = "granite",
               .architecture = "GraniteForCausalLM",
               .prefix = "model.",
               .defaults = {.context = 2048, .bos = 1, .eos = 2},
               .has_head_dim = false,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias,
                           kMlpBias,
                           {"embedding_multiplier", &HfConfig::embedding_multiplier, 1},
                           {"logits_scaling", &HfConfig::logits_scaling, 1},
                           {"residual_multiplier", &HfConfig::residual_multiplier, 1},
                           {"attention_multiplier", &HfConfig::attention_multiplier, 1}},
               .names = kLlamaNames});
  f.push_back(
      {.name = "phi3",
       .architecture = "Phi3ForCausalLM",
       .prefix = "model.",
       .blocks = {.windows = HfWindows::every},
       .defaults = {.context = 4096, .norm_eps = 1e-5, .bos = 1, .eos = 32000, .pad = 32000, .partial_rotary = 1},
       .has_head_dim = false,
       .renamed = {{"norm_eps", "rms_norm_eps"}},
       .options = {{"resid_pdrop", &HfConfig::residual_dropout}, {"embd_pdrop", &HfConfig::embedding_dropout}},
       .fixed = {{"attention_bias", false, "and phi3 has no biases"},
                 {"mlp_bias", false, "and phi3 has no biases"},
                 {"lm_head_bias", false, "and phi3 has no biases"}},
       .harmless = {"full_attn_mod", "interpolate_factor"},
       .rope_names = {{"su", RopeType::longrope}, {"yarn", RopeType::longrope}},  // longrope's first names
       .states_original_context = true,
       .names = with_fused_matrices(kLlamaNames)});
  const HfFixed causal{"use_bidirectional_attention", false, "attention in both directions, which a decoder has not"};
  const HfBlocks gemma{.norm = HfNorm::rms_plus_one, .scaled_embedding = true};
  f.push_back({.name = "gemma",
               .architecture = "GemmaForCausalLM",
               .prefix = "model.",
               .blocks = gemma,
               .defaults = {.kv_heads = 16,
                            .head_dim = 256,
                            .context = 8192,
                            .hidden_act = "gelu_pytorch_tanh",
                            .tied = true,
                            .bos = 2,
                            .eos = 1,
                            .pad = 0},
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {kAttentionBias},
               .fixed = {causal},
               .unfollowed = {"hidden_activation"},
               .gelu_is_tanh = true,
               .names = kLlamaNames});
  HfBlocks gemma2 = gemma;
  gemma2.place = HfNormPlace::around, gemma2.windows = HfWindows::listed, gemma2.full_every = 2;
  const HfDefaults gemma2_defaults{.kv_heads = 4,
                                   .head_dim = 256,
                                   .context = 8192,
                                   .hidden_act = "gelu_pytorch_tanh",
                                   .tied = true,
                                   .bos = 2,
                                   .eos = 1,
                                   .pad = 0,
                                   .window = 4096};
  f.push_back({.name = "gemma2",
               .architecture = "Gemma2ForCausalLM",
               .prefix = "model.",
               .blocks = gemma2,
               .defaults = gemma2_defaults,
               .renamed = {{"norm_eps", "rms_norm_eps"}, {"hidden_act", "hidden_activation"}},
               .options = {kAttentionBias,
                           {"query_pre_attn_scalar", &HfConfig::query_pre_attn_scalar, 256, "", true},
                           {"attn_logit_softcapping", &HfConfig::attn_logit_softcapping, 50},
                           {"final_logit_softcapping", &HfConfig::final_logit_softcapping, 30}},
               .fixed = {causal},
               .harmless = {"hidden_act", "sliding_window_size"},
               .names = with_norms_around(kLlamaNames)});
  HfBlocks gemma3 = gemma2;
  gemma3.head_norm = HfHeadNorm::head, gemma3.full_every = 6;
  HfDefaults gemma3_defaults = gemma2_defaults;
  gemma3_defaults.context = 131072, gemma3_defaults.rope_theta = 1000000, gemma3_defaults.local_rope_theta = 10000;
  f.push_back({.name = "gemma3_text",
               .architecture = "Gemma3ForCausalLM",
               .prefix = "model.",
               .blocks = gemma3,
               .defaults = gemma3_defaults,
               .renamed = {{"norm_eps", "rms_norm_eps"}, {"hidden_act", "hidden_activation"}},
               .options = {kAttentionBias,
                           {"query_pre_attn_scalar", &HfConfig::query_pre_attn_scalar, 256, "", true},
                           {"final_logit_softcapping", &HfConfig::final_logit_softcapping, {}}},
               .fixed = {causal},
               .unfollowed = {"attn_logit_softcapping"},
               .harmless = {"hidden_act"},
               .names = with_norms_around(with_head_norms(kLlamaNames))});
  add_older_families(f);
  add_later_families(f);
  add_families_of_experts(f);
  add_later_mixtures(f);
  add_encoders(f);
  return f;
}

}  // namespace

const std::vector<HfFamily>& hf_families() {
  static const std::vector<HfFamily> families = make_families();
  return families;
}

const HfFamily* find_hf_family(std::string_view model_type) {
  for (const HfFamily& f : hf_families())
    if (f.name == model_type) return &f;
  return nullptr;
}

const HfFamily& hf_family(const HfConfig& config) {
  if (const HfFamily* f = find_hf_family(config.model_type)) return *f;
  throw Error(ErrorKind::usage, "model config: model_type: '{}', expected one of {}", config.model_type,
              fmt::join(supported_families(), ", "));
}

HfBlocks hf_blocks(const HfConfig& config) {
  HfBlocks blocks = hf_family(config).blocks;
  if (config.alibi) blocks.positions = HfPositions::alibi;
  if (!config.parallel_residual || config.parallel_norms == 2) blocks.shared_norm = false;
  return blocks;
}

HfNames hf_names(const HfConfig& config) {
  const HfFamily& family = hf_family(config);
  HfNames names = family.names;
  if (config.parallel_norms == 2)
    names.attention_norm = family.norms_of_two.attention, names.mlp_norm = family.norms_of_two.mlp;
  return names;
}

}  // namespace tern
