// The rows of mixtures: decoders with experts in the place of MLPs.
// Source of all rows: formats/hf/family.cpp.

#include "formats/hf/family_impl.h"

#include <utility>

namespace tern {

namespace {

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

constexpr HfNames with_stacked_experts(HfNames n) {
  n.up = n.down = "";
  n.sinks = "model.layers.#.self_attn.sinks";
  n.router = "model.layers.#.mlp.router";
  n.expert_up = "&model.layers.#.mlp.experts.gate_up_proj";
  n.expert_down = "&model.layers.#.mlp.experts.down_proj";
  return n;
}

// Sinks of attention, a window in every second layer, biases everywhere, experts of a bounded gate.
HfFamily gpt_oss() {
  const HfRope yarn{.type = RopeType::yarn,
                    .theta = 150000,
                    .factor = 32,
                    .original_max_position_embeddings = 4096,
                    .truncate = false};
  return {.name = "gpt_oss",
          .architecture = "GptOssForCausalLM",
          .prefix = "model.",
          .blocks = {.windows = HfWindows::listed,
                     .experts = HfExperts::every,
                     .router_bias = true,
                     .expert_bias = true,
                     .sinks = true,
                     .full_every = 2},
          .defaults = {.kv_heads = 8,
                       .head_dim = 64,
                       .context = 131072,
                       .norm_eps = 1e-5,
                       .attention_bias = true,
                       .rope_theta = 150000,
                       .window = 128,
                       .rope = yarn},
          .any_width = true,
          .renamed = {{"norm_eps", "rms_norm_eps"}},
          .options = {{"attention_bias", &HfConfig::attention_bias, 1},
                      {"num_local_experts", &HfConfig::num_experts, 128, "num_experts"},
                      {"num_experts_per_tok", &HfConfig::experts_per_token, 4, "experts_per_token"},
                      {"swiglu_alpha", &HfConfig::gate_alpha, 1.702},
                      {"swiglu_limit", &HfConfig::gate_limit, 7},
                      {"output_router_logits", &HfConfig::router_loss},
                      {"router_aux_loss_coef", &HfConfig::router_loss_coefficient, 0.001}},
          .harmless = {"initial_context_length"},  // original_max_position_embeddings again
          .names = with_stacked_experts(kLlamaNames)};
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
                          {"n_routed_experts", &HfConfig::num_experts, 64},
                          {"num_experts_per_tok", &HfConfig::experts_per_token},
                          {"moe_intermediate_size", &HfConfig::expert_size, 1407},
                          {"routed_scaling_factor", &HfConfig::expert_scaling, 1},
                          {"n_group", &HfConfig::expert_groups, 1},
                          {"topk_group", &HfConfig::top_groups, 1},
                          {"kv_lora_rank", &HfConfig::kv_rank, 512},
                          {"qk_nope_head_dim", &HfConfig::plain_head_dim, 128},
                          {"v_head_dim", &HfConfig::value_head_dim, 128},
                          {"output_router_logits", &HfConfig::router_loss},
                          {"aux_loss_alpha", &HfConfig::router_loss_coefficient, 0.001}},
              .fixed = {{"norm_topk_prob", false, "which transformers' model does not follow and the original does"},
                        {"mlp_bias", false, "and deepseek_v2 has no biases there"}},
              .harmless = {"ep_size", "seq_aux", "qk_head_dim"},
              .names = with_latents(kLlamaNames)};
  HfFamily v3 = v2;
  v3.name = "deepseek_v3", v3.architecture = "DeepseekV3ForCausalLM";
  v3.blocks.sigmoid_router = true;
  v3.defaults.context = 4096, v3.defaults.bos = 0, v3.defaults.eos = 1;
  v3.options = {kAttentionBias,
                {"n_routed_experts", &HfConfig::num_experts, 256},
                {"num_experts_per_tok", &HfConfig::experts_per_token, 8},
                {"moe_intermediate_size", &HfConfig::expert_size, 2048},
                {"routed_scaling_factor", &HfConfig::expert_scaling, 2.5},
                {"n_group", &HfConfig::expert_groups, 8},
                {"topk_group", &HfConfig::top_groups, 4},
                {"norm_topk_prob", &HfConfig::normalized_experts, 1},
                {"kv_lora_rank", &HfConfig::kv_rank, 512},
                {"qk_nope_head_dim", &HfConfig::plain_head_dim, 128},
                {"v_head_dim", &HfConfig::value_head_dim, 128},
                {"rope_interleave", &HfConfig::rope_interleaved, 1},
                {"num_nextn_predict_layers", &HfConfig::predicting_layers, 1, "num_mtp_layers"},
                {"output_router_logits", &HfConfig::router_loss},
                {"aux_loss_alpha", &HfConfig::router_loss_coefficient, 0.001}};
  v3.fixed = {};
  f.push_back(std::move(v2));
  f.push_back(std::move(v3));
}

}  // namespace

void add_families_of_experts(std::vector<HfFamily>& f) {
  const HfOption loss{"output_router_logits", &HfConfig::router_loss},
      coefficient{"router_aux_loss_coef", &HfConfig::router_loss_coefficient, 0.001};
  f.push_back(
      {.name = "mixtral",
       .architecture = "MixtralForCausalLM",
       .prefix = "model.",
       .blocks = {.windows = HfWindows::every, .experts = HfExperts::every},
       .defaults = {.kv_heads = 8, .context = 131072, .norm_eps = 1e-5, .bos = 1, .eos = 2, .rope_theta = 1000000},
       .any_width = true,
       .renamed = {{"norm_eps", "rms_norm_eps"}},
       .options = {{"num_local_experts", &HfConfig::num_experts, 8, "num_experts"},
                   {"num_experts_per_tok", &HfConfig::experts_per_token, 2},
                   {"router_jitter_noise", &HfConfig::router_jitter},
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
               .options = {{"qkv_bias", &HfConfig::attention_bias, 1},
                           {"num_experts", &HfConfig::num_experts, 60},
                           {"num_experts_per_tok", &HfConfig::experts_per_token, 4},
                           {"moe_intermediate_size", &HfConfig::expert_size, 1408},
                           {"shared_expert_intermediate_size", &HfConfig::shared_expert_size, 5632},
                           {"norm_topk_prob", &HfConfig::normalized_experts},
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
                   {"num_experts", &HfConfig::num_experts, 128, "num_local_experts"},
                   {"num_experts_per_tok", &HfConfig::experts_per_token, 8},
                   {"moe_intermediate_size", &HfConfig::expert_size, 768},
                   {"norm_topk_prob", &HfConfig::normalized_experts},
                   loss,
                   coefficient},
       .harmless = {"max_window_layers"},
       .names = with_experts(with_head_norms(kLlamaNames))});
  add_deepseek(f);
  f.push_back(gpt_oss());
}

}  // namespace tern
