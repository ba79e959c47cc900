#include "formats/hf_family.h"

#include <fmt/format.h>

#include "base/error.h"

// Source: the configuration and model classes of transformers 5.23 (keys, defaults, names of parameters), observed by
// running them; dev/golden/families.py compares every row with it.

namespace tern {
namespace {

using C = HfConfig;

constexpr HfNames kLlamaNames{
    .tokens = "model.embed_tokens",
    .attention_norm = "model.layers.#.input_layernorm",
    .qkv = "model.layers.#.self_attn.q_proj,model.layers.#.self_attn.k_proj,model.layers.#.self_attn.v_proj",
    .attention_out = "model.layers.#.self_attn.o_proj",
    .mlp_norm = "model.layers.#.post_attention_layernorm",
    .up = "model.layers.#.mlp.gate_proj,model.layers.#.mlp.up_proj",
    .down = "model.layers.#.mlp.down_proj",
    .final_norm = "model.norm",
    .projection = "lm_head"};

constexpr HfNames with_head_norms(HfNames n) {
  n.query_norm = "model.layers.#.self_attn.q_norm", n.key_norm = "model.layers.#.self_attn.k_norm";
  return n;
}
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

constexpr HfNames with_experts(HfNames n) {
  n.router = "model.layers.#.mlp.gate";
  n.expert_up = "model.layers.#.mlp.experts.@.gate_proj,model.layers.#.mlp.experts.@.up_proj";
  n.expert_down = "model.layers.#.mlp.experts.@.down_proj";
  return n;
}
constexpr HfNames with_shared_expert(HfNames n) {
  n = with_experts(n);
  n.shared_up = "model.layers.#.mlp.shared_expert.gate_proj,model.layers.#.mlp.shared_expert.up_proj";
  n.shared_down = "model.layers.#.mlp.shared_expert.down_proj";
  n.shared_gate = "model.layers.#.mlp.shared_expert_gate";
  return n;
}
constexpr HfNames with_latents(HfNames n) {
  n = with_experts(n);
  n.qkv = "";
  n.query = "model.layers.#.self_attn.q_proj";
  n.query_down = "model.layers.#.self_attn.q_a_proj";
  n.query_norm = "model.layers.#.self_attn.q_a_layernorm";
  n.query_up = "model.layers.#.self_attn.q_b_proj";
  n.kv_down = "model.layers.#.self_attn.kv_a_proj_with_mqa";
  n.kv_norm = "model.layers.#.self_attn.kv_a_layernorm";
  n.kv_up = "model.layers.#.self_attn.kv_b_proj";
  n.shared_up = "model.layers.#.mlp.shared_experts.gate_proj,model.layers.#.mlp.shared_experts.up_proj";
  n.shared_down = "model.layers.#.mlp.shared_experts.down_proj";
  return n;
}
constexpr HfNames with_mixtral_experts(HfNames n) {
  n.up = n.down = "";
  n.router = "model.layers.#.block_sparse_moe.gate";
  n.expert_up = "model.layers.#.block_sparse_moe.experts.@.w1,model.layers.#.block_sparse_moe.experts.@.w3";
  n.expert_down = "model.layers.#.block_sparse_moe.experts.@.w2";
  return n;
}

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

const HfOption kAttentionBias{"attention_bias", &C::attention_bias}, kMlpBias{"mlp_bias", &C::mlp_bias};

// Falcon says in several switches how many heads its keys have, and how its norms stand.
std::string settle_falcon(C& c) {
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

// Layer norms and plain MLPs: the families before Llama.
void add_older_families(std::vector<HfFamily>& f) {
  const HfOption hidden_dropout{"hidden_dropout", &C::residual_dropout};
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
               .options = {{"attention_bias", &C::attention_bias, 1},
                           {"use_parallel_residual", &C::parallel_residual, 1},
                           hidden_dropout},
               .harmless = {"classifier_dropout"},
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
       .options = {{"enable_bias", &C::attention_bias, 1},
                   {"enable_bias", &C::mlp_bias, 1},
                   {"dropout", &C::residual_dropout, 0.1}},
       .fixed = {{"do_layer_norm_before", true, "norms after the sum, which tern's opt does not have", true},
                 {"layer_norm_elementwise_affine", true, "norms without weights, which tern does not have", true},
                 {"_remove_final_layer_norm", false, "no last norm, which tern does not have"}},
       .harmless = {"layerdrop", "activation_dropout"},
       .hidden_again = {"word_embed_proj_dim"},
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
       .renamed = {{"num_hidden_layers", "n_layer", "num_hidden_layers"},
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
       .hidden_again = {"n_embed"},
       .names = with_embed_norm(kFalconNames)});
  f.push_back({.name = "falcon",
               .architecture = "FalconForCausalLM",
               .prefix = "transformer.",
               .blocks = {.norm = HfNorm::layer, .gated = false, .alibi_in_bf16 = true},
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
               .options = {{"bias", &C::attention_bias},
                           {"bias", &C::mlp_bias},
                           {"alibi", &C::alibi},
                           {"multi_query", &C::multi_query, 1},
                           {"new_decoder_architecture", &C::new_decoder_architecture},
                           {"parallel_attn", &C::parallel_residual, 1},
                           {"num_ln_in_parallel_attn", &C::parallel_norms},
                           hidden_dropout},
               .hidden_again = {"n_embed"},
               .settle = settle_falcon,
               .names = kFalconNames});
}

// Decoders with experts in the place of MLPs.
void add_families_of_experts(std::vector<HfFamily>& f) {
  const HfOption loss{"output_router_logits", &C::router_loss},
      coefficient{"router_aux_loss_coef", &C::router_loss_coefficient, 0.001};
  f.push_back(
      {.name = "mixtral",
       .architecture = "MixtralForCausalLM",
       .prefix = "model.",
       .blocks = {.windows = HfWindows::every, .experts = HfExperts::every},
       .defaults = {.kv_heads = 8, .context = 131072, .norm_eps = 1e-5, .bos = 1, .eos = 2, .rope_theta = 1000000},
       .any_width = true,
       .renamed = {{"norm_eps", "rms_norm_eps"}},
       .options = {{"num_local_experts", &C::num_experts, 8, "num_experts"},
                   {"num_experts_per_tok", &C::experts_per_token, 2},
                   {"router_jitter_noise", &C::router_jitter},
                   loss,
                   coefficient},
       .names = with_mixtral_experts(kLlamaNames)});
  f.push_back({.name = "qwen2_moe",
               .architecture = "Qwen2MoeForCausalLM",
               .prefix = "model.",
               .blocks = {.out_bias = false, .windows = HfWindows::switched_even, .experts = HfExperts::stepped},
               .defaults = {.kv_heads = 16, .context = 32768, .attention_bias = true, .window = 4096},
               .has_head_dim = false,
               .renamed = {{"norm_eps", "rms_norm_eps"}},
               .options = {{"qkv_bias", &C::attention_bias, 1},
                           {"num_experts", &C::num_experts, 60},
                           {"num_experts_per_tok", &C::experts_per_token, 4},
                           {"moe_intermediate_size", &C::expert_size, 1408},
                           {"shared_expert_intermediate_size", &C::shared_expert_size, 5632},
                           {"norm_topk_prob", &C::normalized_experts},
                           loss,
                           coefficient},
               .names = with_shared_expert(kLlamaNames)});
  f.push_back(
      {.name = "qwen3_moe",
       .architecture = "Qwen3MoeForCausalLM",
       .prefix = "model.",
       .blocks = {.head_norm = HfHeadNorm::head, .windows = HfWindows::switched_every, .experts = HfExperts::stepped},
       .defaults = {.kv_heads = 4, .context = 32768, .window = 4096},
       .any_width = true,
       .renamed = {{"norm_eps", "rms_norm_eps"}},
       .options = {kAttentionBias,
                   {"num_experts", &C::num_experts, 128, "num_local_experts"},
                   {"num_experts_per_tok", &C::experts_per_token, 8},
                   {"moe_intermediate_size", &C::expert_size, 768},
                   {"norm_topk_prob", &C::normalized_experts},
                   loss,
                   coefficient},
       .harmless = {"max_window_layers"},
       .names = with_experts(with_head_norms(kLlamaNames))});
}

// Latent attention, experts after some dense layers.
void add_deepseek(std::vector<HfFamily>& f) {
  HfFamily v2{.name = "deepseek_v2",
              .architecture = "DeepseekV2ForCausalLM",
              .prefix = "model.",
              .blocks = {.experts = HfExperts::after, .shared_gate = false, .latent = true},
              .defaults = {.head_dim = 64, .context = 2048, .bos = 1, .eos = 2},
              .any_width = true,
              .renamed = {{"norm_eps", "rms_norm_eps"}},
              .options = {kAttentionBias,
                          {"n_routed_experts", &C::num_experts, 64},
                          {"num_experts_per_tok", &C::experts_per_token},
                          {"moe_intermediate_size", &C::expert_size, 1407},
                          {"routed_scaling_factor", &C::expert_scaling, 1},
                          {"n_group", &C::expert_groups, 1},
                          {"topk_group", &C::top_groups, 1},
                          {"kv_lora_rank", &C::kv_rank, 512},
                          {"qk_nope_head_dim", &C::plain_head_dim, 128},
                          {"v_head_dim", &C::value_head_dim, 128},
                          {"output_router_logits", &C::router_loss},
                          {"aux_loss_alpha", &C::router_loss_coefficient, 0.001}},
              .fixed = {{"norm_topk_prob", false, "which transformers' model does not follow and the original does"},
                        {"mlp_bias", false, "and deepseek_v2 has no biases there"}},
              .harmless = {"ep_size", "seq_aux", "qk_head_dim"},
              .names = with_latents(kLlamaNames)};
  HfFamily v3 = v2;
  v3.name = "deepseek_v3", v3.architecture = "DeepseekV3ForCausalLM";
  v3.blocks.sigmoid_router = true;
  v3.defaults.context = 4096, v3.defaults.bos = 0, v3.defaults.eos = 1;
  v3.options = {kAttentionBias,
                {"n_routed_experts", &C::num_experts, 256},
                {"num_experts_per_tok", &C::experts_per_token, 8},
                {"moe_intermediate_size", &C::expert_size, 2048},
                {"routed_scaling_factor", &C::expert_scaling, 2.5},
                {"n_group", &C::expert_groups, 8},
                {"topk_group", &C::top_groups, 4},
                {"norm_topk_prob", &C::normalized_experts, 1},
                {"kv_lora_rank", &C::kv_rank, 512},
                {"qk_nope_head_dim", &C::plain_head_dim, 128},
                {"v_head_dim", &C::value_head_dim, 128},
                {"rope_interleave", &C::rope_interleaved, 1},
                {"num_nextn_predict_layers", &C::predicting_layers, 1, "num_mtp_layers"},
                {"output_router_logits", &C::router_loss},
                {"aux_loss_alpha", &C::router_loss_coefficient, 0.001}};
  v3.fixed = {};
  f.push_back(std::move(v2));
  f.push_back(std::move(v3));
}

// Encoders: no next token, so tern embed is what they are for.
void add_encoders(std::vector<HfFamily>& f) {
  f.push_back(
      {.name = "bert",
       .architecture = "BertModel",
       .prefix = "bert.",
       .blocks = {.norm = HfNorm::layer,
                  .place = HfNormPlace::sum,
                  .positions = HfPositions::learned,
                  .gated = false,
                  .causal = false},
       .defaults = {.context = 512,
                    .norm_eps = 1e-12,
                    .hidden_act = "gelu",
                    .attention_dropout = 0.1,
                    .attention_bias = true,
                    .mlp_bias = true,
                    .tied = true,
                    .pad = 0},
       .has_kv_heads = false,
       .has_head_dim = false,
       .renamed = {{"norm_eps", "layer_norm_eps"}, {"attention_dropout", "attention_probs_dropout_prob"}},
       .options = {{"hidden_dropout_prob", &C::residual_dropout, 0.1}, {"type_vocab_size", &C::type_vocab_size, 2}},
       .fixed = {{"is_decoder", false, "an encoder's weights used as a decoder, which tern does not have"},
                 {"add_cross_attention", false, "cross-attention, which tern does not have"}},
       // the heads for classification, and what older files say of the pooler
       .harmless = {"classifier_dropout", "directionality", "pooler_fc_size", "pooler_num_attention_heads",
                    "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"},
       .names = {.tokens = "bert.embeddings.word_embeddings",
                 .positions = "bert.embeddings.position_embeddings",
                 .token_types = "bert.embeddings.token_type_embeddings",
                 .embed_norm = "bert.embeddings.LayerNorm",
                 .qkv = "bert.encoder.layer.#.attention.self.query,bert.encoder.layer.#.attention.self.key,"
                        "bert.encoder.layer.#.attention.self.value",
                 .attention_out = "bert.encoder.layer.#.attention.output.dense",
                 .attention_post_norm = "bert.encoder.layer.#.attention.output.LayerNorm",
                 .up = "bert.encoder.layer.#.intermediate.dense",
                 .down = "bert.encoder.layer.#.output.dense",
                 .mlp_post_norm = "bert.encoder.layer.#.output.LayerNorm"}});
}

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
       .options = {{"resid_pdrop", &C::residual_dropout, 0.1}, {"embd_pdrop", &C::embedding_dropout, 0.1}},
       .fixed = {{"scale_attn_weights", true, "attention without 1/sqrt(head size), which tern does not have", true},
                 {"scale_attn_by_inverse_layer_idx", false, "attention scaled by layer, which tern does not have"},
                 {"add_cross_attention", false, "cross-attention, which tern does not have"}},
       // the heads for classification, and arithmetic in a wider type
       .harmless = {"n_ctx", "reorder_and_upcast_attn", "summary_activation", "summary_first_dropout",
                    "summary_proj_to_labels", "summary_type", "summary_use_proj"},
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
                           {"embedding_multiplier", &C::embedding_multiplier, 1},
                           {"logits_scaling", &C::logits_scaling, 1},
                           {"residual_multiplier", &C::residual_multiplier, 1},
                           {"attention_multiplier", &C::attention_multiplier, 1}},
               .names = kLlamaNames});
  f.push_back(
      {.name = "phi3",
       .architecture = "Phi3ForCausalLM",
       .prefix = "model.",
       .blocks = {.windows = HfWindows::every},
       .defaults = {.context = 4096, .norm_eps = 1e-5, .bos = 1, .eos = 32000, .pad = 32000, .partial_rotary = 1},
       .has_head_dim = false,
       .renamed = {{"norm_eps", "rms_norm_eps"}},
       .options = {{"resid_pdrop", &C::residual_dropout}, {"embd_pdrop", &C::embedding_dropout}},
       .fixed = {{"attention_bias", false, "and phi3 has no biases"},
                 {"mlp_bias", false, "and phi3 has no biases"},
                 {"lm_head_bias", false, "and phi3 has no biases"}},
       .harmless = {"full_attn_mod", "interpolate_factor"},
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
               .harmless = {"hidden_activation"},
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
                           {"query_pre_attn_scalar", &C::query_pre_attn_scalar, 256, "", true},
                           {"attn_logit_softcapping", &C::attn_logit_softcapping, 50},
                           {"final_logit_softcapping", &C::final_logit_softcapping, 30}},
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
                           {"query_pre_attn_scalar", &C::query_pre_attn_scalar, 256, "", true},
                           {"attn_logit_softcapping", &C::attn_logit_softcapping, {}},
                           {"final_logit_softcapping", &C::final_logit_softcapping, {}}},
               .fixed = {causal},
               .harmless = {"hidden_act"},
               .names = with_norms_around(with_head_norms(kLlamaNames))});
  add_older_families(f);
  add_families_of_experts(f);
  add_deepseek(f);
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
  if (config.model_type == "falcon") blocks.shared_norm = config.parallel_residual && config.parallel_norms != 2;
  return blocks;
}

HfNames hf_names(const HfConfig& config) {
  HfNames names = hf_family(config).names;
  if (config.parallel_norms == 2)
    names.attention_norm = "transformer.h.#.ln_attn", names.mlp_norm = "transformer.h.#.ln_mlp";
  return names;
}

}  // namespace tern
