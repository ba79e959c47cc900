// The rows of decoders after Llama that share its shape: norms and biases elsewhere, other windows, other names.
// Source of all rows: formats/hf/family.cpp, with transformers 5.24.

#include "formats/hf/family_impl.h"

#include <utility>

namespace tern {

namespace {

constexpr HfNames with_norms_after_branches(HfNames n) {
  n.attention_norm = n.mlp_norm = "";
  n.attention_post_norm = "model.layers.#.post_attention_layernorm";
  n.mlp_post_norm = "model.layers.#.post_feedforward_layernorm";
  return n;
}
constexpr HfNames with_plain_mlp(HfNames n) {
  n.up = "model.layers.#.mlp.c_fc", n.down = "model.layers.#.mlp.c_proj";
  return n;
}
constexpr HfNames with_latents_alone(HfNames n) {
  n.qkv = "";
  n.query = "model.layers.#.self_attn.q_proj";
  n.query_down = "model.layers.#.self_attn.q_a_proj";
  n.query_norm = "model.layers.#.self_attn.q_a_layernorm";
  n.query_up = "model.layers.#.self_attn.q_b_proj";
  n.kv_down = "model.layers.#.self_attn.kv_a_proj_with_mqa";
  n.kv_norm = "model.layers.#.self_attn.kv_a_layernorm";
  n.kv_up = "model.layers.#.self_attn.kv_b_proj";
  return n;
}
// Queries and keys turn in pairs of neighbours, which tern sorts into halves (model/names.cpp).
constexpr HfNames with_pairs_of_neighbours(HfNames n) {
  n.qkv = "~model.layers.#.self_attn.q_proj,model.layers.#.self_attn.k_proj,model.layers.#.self_attn.v_proj";
  return n;
}
// EXAONE 3's own names.
constexpr HfNames kExaoneNames{.tokens = "transformer.wte",
                               .attention_norm = "transformer.h.#.ln_1",
                               .qkv =
                                   "transformer.h.#.attn.attention.q_proj,transformer.h.#.attn.attention.k_proj,"
                                   "transformer.h.#.attn.attention.v_proj",
                               .attention_out = "transformer.h.#.attn.attention.out_proj",
                               .mlp_norm = "transformer.h.#.ln_2",
                               .up = "transformer.h.#.mlp.c_fc_0,transformer.h.#.mlp.c_fc_1",
                               .down = "transformer.h.#.mlp.c_proj",
                               .final_norm = "transformer.ln_f",
                               .projection = "lm_head"};

constexpr HfRename kRmsEps{"norm_eps", "rms_norm_eps"};

// All queries, then the one key and value of all heads; without multi_query the rows come by heads.
std::string settle_bigcode(HfConfig& c) {
  if (!c.multi_query) return "multi_query: false, rows of queries, keys and values by heads; expected true";
  c.num_key_value_heads = 1;
  return "";
}

// The releases have one switch for q, k, v and one for the other matrices; transformers has them together.
std::string settle_internlm3(HfConfig& c) {
  if (c.attention_bias != c.mlp_bias)
    return "qkv_bias and bias differ, which tern does not have; expected both or none";
  return "";
}

// Longer than a screen: a table, one row per family.
void add_coders(std::vector<HfFamily>& f) {
  f.push_back({.name = "starcoder2",
               .architecture = "Starcoder2ForCausalLM",
               .prefix = "model.",
               .blocks = {.norm = HfNorm::layer, .gated = false, .windows = HfWindows::every},
               .defaults = {.kv_heads = 2,
                            .context = 4096,
                            .norm_eps = 1e-5,
                            .hidden_act = "gelu_pytorch_tanh",
                            .tied = true,
                            .bos = 50256,
                            .eos = 50256},
               .renamed = {{"norm_eps", "norm_epsilon"}},
               .options = {{"use_bias", &HfConfig::attention_bias, 1},
                           {"use_bias", &HfConfig::mlp_bias, 1},
                           {"residual_dropout", &HfConfig::residual_dropout},
                           {"embedding_dropout", &HfConfig::embedding_dropout}},
               .fixed = {{"scale_attn_weights", true, "attention without 1/sqrt(head size), which tern does not have"}},
               // what the releases say again, in the words of the family before
               .harmless = {"activation_function", "attention_softmax_in_fp32", "layer_norm_epsilon", "mlp_type",
                            "norm_type", "scale_attention_softmax_in_fp32"},
               .names = with_plain_mlp(kLlamaNames)});
  f.push_back(
      {.name = "gpt_bigcode",  // StarCoder, SantaCoder
       .architecture = "GPTBigCodeForCausalLM",
       .prefix = "transformer.",
       .blocks = {.norm = HfNorm::layer, .positions = HfPositions::learned, .gated = false},
       .defaults = {.intermediate_factor = 4,
                    .context = 1024,
                    .norm_eps = 1e-5,
                    .hidden_act = "gelu_pytorch_tanh",
                    .attention_dropout = 0.1,
                    .attention_bias = true,
                    .mlp_bias = true,
                    .tied = true,
                    .bos = 50256,
                    .eos = 50256},
       .has_head_dim = false,
       .renamed = {{"hidden_size", "n_embd", "hidden_size"},
                   {"num_hidden_layers", "n_layer", "num_hidden_layers"},
                   {"num_attention_heads", "n_head", "num_attention_heads"},
                   {"max_position_embeddings", "n_positions", "max_position_embeddings"},
                   {"intermediate_size", "n_inner"},
                   {"hidden_act", "activation_function"},
                   {"norm_eps", "layer_norm_epsilon"},
                   {"attention_dropout", "attn_pdrop"}},
       .options = {{"multi_query", &HfConfig::multi_query, 1},
                   {"resid_pdrop", &HfConfig::residual_dropout, 0.1},
                   {"embd_pdrop", &HfConfig::embedding_dropout, 0.1}},
       .fixed = {{"scale_attn_weights", true, "attention without 1/sqrt(head size), which tern does not have", true},
                 {"add_cross_attention", false, "cross-attention, which tern does not have"}},
       // the heads for classification, arithmetic in a wider type, and the releases' own server
       .harmless = {"attention_softmax_in_fp32", "inference_runner", "max_batch_size", "n_ctx", "pad_key_length",
                    "pre_allocate_kv_cache", "scale_attention_softmax_in_fp32", "summary_activation",
                    "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
                    "validate_runner_input"},
       .settle = settle_bigcode,
       .names = {.tokens = "transformer.wte",
                 .positions = "transformer.wpe",
                 .attention_norm = "transformer.h.#.ln_1",
                 .qkv = "transformer.h.#.attn.c_attn",
                 .attention_out = "transformer.h.#.attn.c_proj",
                 .mlp_norm = "transformer.h.#.ln_2",
                 .up = "transformer.h.#.mlp.c_fc",
                 .down = "transformer.h.#.mlp.c_proj",
                 .final_norm = "transformer.ln_f",
                 .projection = "lm_head"}});
}

// Llama's blocks under other keys or names.
void add_llama_like(std::vector<HfFamily>& f) {
  f.push_back(
      {.name = "internlm3",
       .architecture = "LlamaForCausalLM",
       .prefix = "model.",
       .defaults = {.kv_heads = 2, .head_dim = 128, .context = 32768, .norm_eps = 1e-5, .bos = 1, .eos = 2, .pad = 2},
       .any_width = true,
       .renamed = {kRmsEps},
       // transformers writes the second names
       .options = {{"qkv_bias", &HfConfig::attention_bias, 0, "attention_bias"},
                   {"bias", &HfConfig::mlp_bias, 0, "mlp_bias"}},
       .settle = settle_internlm3,
       .names = kLlamaNames});
  f.push_back(
      {.name = "exaone",  // 3 and 3.5
       .architecture = "ExaoneForCausalLM",
       .prefix = "transformer.",
       .defaults =
           {.kv_heads = 8, .context = 4096, .norm_eps = 1e-5, .bos = 1, .eos = 361, .pad = 0, .rope_theta = 500000},
       .any_width = true,
       .renamed = {{"num_hidden_layers", "num_layers", "num_hidden_layers"},
                   {"hidden_act", "activation_function", "hidden_act"},
                   {"norm_eps", "layer_norm_epsilon", "rms_norm_eps"}},
       .options = {kAttentionBias, kMlpBias, {"embed_dropout", &HfConfig::embedding_dropout}},
       .names = kExaoneNames});
  f.push_back(
      {.name = "seed_oss",
       .architecture = "SeedOssForCausalLM",
       .prefix = "model.",
       .blocks = {.out_bias = false},
       .defaults = {.head_dim = 128, .context = 524288, .attention_dropout = 0.1, .bos = 0, .eos = 2, .pad = 1},
       .any_width = true,
       .renamed = {kRmsEps},
       .options = {{"attention_bias", &HfConfig::attention_bias, 1},
                   kMlpBias,
                   {"residual_dropout", &HfConfig::residual_dropout, 0.1}},
       .fixed = {{"attention_out_bias", false, "a bias behind attention, which tern's seed_oss does not have", true}},
       .names = kLlamaNames});
  f.push_back(
      {.name = "stablelm",
       .architecture = "StableLmForCausalLM",
       .prefix = "model.",
       .blocks = {.norm = HfNorm::layer, .out_bias = false, .shared_norm = true},
       .defaults = {.kv_heads = 32, .context = 4096, .norm_eps = 1e-5, .bos = 0, .eos = 0, .partial_rotary = 0.25},
       .has_head_dim = false,
       .renamed = {{"norm_eps", "layer_norm_eps"}},
       .options = {{"use_qkv_bias", &HfConfig::attention_bias},
                   {"use_parallel_residual", &HfConfig::parallel_residual},
                   {"hidden_dropout", &HfConfig::residual_dropout}},
       .fixed = {{"qk_layernorm", false, "layer norms of each head's own, which tern does not have"}},
       .names = kLlamaNames});
}

// Norms after the branches, and of queries and keys; windows in three layers of four.
void add_norms_after(std::vector<HfFamily>& f) {
  f.push_back({.name = "olmo3",
               .architecture = "Olmo3ForCausalLM",
               .prefix = "model.",
               .blocks = {.place = HfNormPlace::after,
                          .head_norm = HfHeadNorm::row,
                          .windows = HfWindows::listed,
                          .full_every = 4},
               // layers with a window turn by the plain angles, whatever rope_scaling says of the others
               .defaults = {.context = 2048,
                            .norm_eps = 1e-5,
                            .eos = 50279,
                            .pad = 1,
                            .rope_theta = 500000,
                            .local_rope_theta = 500000,
                            .window = 4096},
               .has_head_dim = false,
               .renamed = {kRmsEps},
               .options = {kAttentionBias},
               .names = with_norms_after_branches(with_head_norms(kLlamaNames))});
  // Where there are windows, a layer without one does not turn: unturned_every beside HfWindows::listed says so.
  f.push_back({.name = "exaone4",
               .architecture = "Exaone4ForCausalLM",
               .prefix = "model.",
               .blocks = {.place = HfNormPlace::after,
                          .head_norm = HfHeadNorm::head,
                          .windows = HfWindows::listed,
                          .full_every = 4,
                          .unturned_every = 4},
               .defaults = {.kv_heads = 32, .context = 2048, .norm_eps = 1e-5, .bos = 0, .eos = 2, .window = 4096},
               .any_width = true,
               .renamed = {kRmsEps},
               .harmless = {"layer_norm_epsilon"},  // the norms' again
               .names = with_norms_after_branches(with_head_norms(kLlamaNames))});
}

void add_turned_in_pairs(std::vector<HfFamily>& f) {
  HfNames names = with_pairs_of_neighbours(kLlamaNames);
  f.push_back({.name = "helium",
               .architecture = "HeliumForCausalLM",
               .prefix = "model.",
               .blocks = {.out_bias = false},
               .defaults = {.kv_heads = 20,
                            .head_dim = 128,
                            .context = 4096,
                            .norm_eps = 1e-8,
                            .bos = 1,
                            .eos = 2,
                            .pad = 3,
                            .rope_theta = 100000},
               .renamed = {kRmsEps},
               .options = {kAttentionBias, kMlpBias},
               .names = names});
  f.push_back({.name = "ernie4_5",
               .architecture = "Ernie4_5ForCausalLM",
               .prefix = "model.",
               .defaults = {.kv_heads = 2,
                            .head_dim = 128,
                            .context = 131072,
                            .norm_eps = 1e-5,
                            .tied = true,
                            .bos = 1,
                            .eos = 2,
                            .pad = 0,
                            .rope_theta = 500000},
               .any_width = true,
               .renamed = {kRmsEps},
               .options = {{"use_bias", &HfConfig::attention_bias}, {"use_bias", &HfConfig::mlp_bias}},
               .names = names});
  names.up = "model.layers.#.mlp.gate_up_proj";
  HfFamily glm{.name = "glm",
               .architecture = "GlmForCausalLM",
               .prefix = "model.",
               .blocks = {.out_bias = false},
               .defaults = {.kv_heads = 2,
                            .head_dim = 128,
                            .context = 131072,
                            .norm_eps = 1.5625e-7,
                            .pad = 151329,
                            .partial_rotary = 0.5},
               .any_width = true,
               .renamed = {kRmsEps},
               .options = {{"attention_bias", &HfConfig::attention_bias, 1}},
               .names = names};
  HfFamily glm4 = glm;
  glm4.name = "glm4", glm4.architecture = "Glm4ForCausalLM";
  glm4.blocks.place = HfNormPlace::around;
  glm4.names.attention_post_norm = "model.layers.#.post_self_attn_layernorm";
  glm4.names.mlp_post_norm = "model.layers.#.post_mlp_layernorm";
  f.push_back(std::move(glm));
  f.push_back(std::move(glm4));
}

HfFamily youtu() {
  return {.name = "youtu",
          .architecture = "YoutuForCausalLM",
          .prefix = "model.",
          .blocks = {.latent = true},
          .defaults = {.head_dim = 64, .context = 131072, .tied = true, .bos = 128000, .eos = 128001},
          .any_width = true,
          .renamed = {kRmsEps},
          .options = {kAttentionBias,
                      {"kv_lora_rank", &HfConfig::kv_rank, 512},
                      {"qk_nope_head_dim", &HfConfig::plain_head_dim, 128},
                      {"v_head_dim", &HfConfig::value_head_dim, 128},
                      {"rope_interleave", &HfConfig::rope_interleaved, 1}},
          .fixed = {{"mlp_bias", false, "and youtu has no biases there"}},
          .harmless = {"embedding_initializer_range", "qk_head_dim"},
          .names = with_latents_alone(kLlamaNames)};
}

HfFamily biogpt() {
  return {.name = "biogpt",
          .architecture = "BioGptForCausalLM",
          .prefix = "biogpt.",
          .blocks = {.norm = HfNorm::layer,
                     .positions = HfPositions::learned,
                     .gated = false,
                     .scaled_embedding = true,
                     .position_offset = 2},
          .defaults = {.context = 1024,
                       .norm_eps = 1e-5,
                       .hidden_act = "gelu",
                       .attention_dropout = 0.1,
                       .attention_bias = true,
                       .mlp_bias = true,
                       .tied = true,
                       .bos = 0,
                       .eos = 2,
                       .pad = 1},
          .has_kv_heads = false,
          .has_head_dim = false,
          .renamed = {{"norm_eps", ""}, {"attention_dropout", "attention_probs_dropout_prob"}},
          .options = {{"hidden_dropout_prob", &HfConfig::residual_dropout, 0.1}},
          .fixed = {{"scale_embedding", true, "an embedding that is not multiplied, which tern's biogpt does not have",
                     true}},
          .unfollowed = {"layer_norm_eps"},  // its norms have PyTorch's default
          .harmless = {"layerdrop", "activation_dropout"},
          .names = {.tokens = "biogpt.embed_tokens",
                    .positions = "biogpt.embed_positions",
                    .attention_norm = "biogpt.layers.#.self_attn_layer_norm",
                    .qkv = "biogpt.layers.#.self_attn.q_proj,biogpt.layers.#.self_attn.k_proj,"
                           "biogpt.layers.#.self_attn.v_proj",
                    .attention_out = "biogpt.layers.#.self_attn.out_proj",
                    .mlp_norm = "biogpt.layers.#.final_layer_norm",
                    .up = "biogpt.layers.#.fc1",
                    .down = "biogpt.layers.#.fc2",
                    .final_norm = "biogpt.layer_norm",
                    .projection = "output_projection"}};
}

}  // namespace

void add_later_families(std::vector<HfFamily>& f) {
  add_coders(f);
  add_llama_like(f);
  add_norms_after(f);
  add_turned_in_pairs(f);
  f.push_back(youtu());
  f.push_back(biogpt());
}

}  // namespace tern
