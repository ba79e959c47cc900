// The rows of later mixtures whose attention is Llama's, and of decoders that mix windows.
// Source of all rows: formats/hf/family.cpp, with transformers 5.24.

#include "formats/hf/family_impl.h"

#include <utility>

namespace tern {

namespace {

constexpr HfNames with_experts_alone(HfNames n) {
  n.router = "model.layers.#.mlp.gate";
  n.expert_up = "model.layers.#.mlp.experts.@.gate_proj,model.layers.#.mlp.experts.@.up_proj";
  n.expert_down = "model.layers.#.mlp.experts.@.down_proj";
  return n;
}
constexpr HfNames with_shared_experts(HfNames n) {
  n = with_experts_alone(n);
  n.shared_up = "model.layers.#.mlp.shared_experts.gate_proj,model.layers.#.mlp.shared_experts.up_proj";
  n.shared_down = "model.layers.#.mlp.shared_experts.down_proj";
  return n;
}

constexpr HfRename kEpsOfRms{"norm_eps", "rms_norm_eps"};

HfFamily olmoe() {
  return {.name = "olmoe",
          .architecture = "OlmoeForCausalLM",
          .prefix = "model.",
          .blocks = {.head_norm = HfHeadNorm::row, .experts = HfExperts::every},
          .defaults = {.context = 4096, .norm_eps = 1e-5, .eos = 50279, .pad = 1},
          .has_head_dim = false,
          .renamed = {kEpsOfRms},
          .options = {kAttentionBias,
                      {"num_experts", &HfConfig::num_experts, 64, "num_local_experts"},
                      {"num_experts_per_tok", &HfConfig::experts_per_token, 8},
                      {"norm_topk_prob", &HfConfig::normalized_experts},
                      {"output_router_logits", &HfConfig::router_loss},
                      {"router_aux_loss_coef", &HfConfig::router_loss_coefficient, 0.01}},
          .names = with_experts_alone(with_head_norms(kLlamaNames))};
}

// DeepSeek-V3's experts behind ordinary attention.
std::vector<HfOption> options_of_sigmoid_experts(double experts, double per_token, double size, double normalized) {
  return {kAttentionBias,
          {"n_routed_experts", &HfConfig::num_experts, experts, "num_local_experts"},
          {"num_experts_per_tok", &HfConfig::experts_per_token, per_token},
          {"moe_intermediate_size", &HfConfig::expert_size, size},
          {"routed_scaling_factor", &HfConfig::expert_scaling, 1},
          {"n_group", &HfConfig::expert_groups, 1},
          {"topk_group", &HfConfig::top_groups, 1},
          {"norm_topk_prob", &HfConfig::normalized_experts, normalized},
          {"output_router_logits", &HfConfig::router_loss}};
}

HfFamily dots1() {
  return {.name = "dots1",
          .architecture = "Dots1ForCausalLM",
          .prefix = "model.",
          .blocks = {.head_norm = HfHeadNorm::head,
                     .windows = HfWindows::listed,
                     .experts = HfExperts::after,
                     .shared_gate = false,
                     .sigmoid_router = true,
                     .full_every = 1},  // windows from max_window_layers on
          .defaults = {.kv_heads = 32, .context = 2048, .window = 4096},
          .any_width = true,
          .renamed = {kEpsOfRms},
          .options = options_of_sigmoid_experts(0, 0, 1408, 0),
          .unfollowed = {"use_sliding_window"},
          .names = with_shared_experts(with_head_norms(kLlamaNames))};
}

HfFamily glm4_moe() {
  std::vector<HfOption> options = options_of_sigmoid_experts(128, 8, 1408, 1);
  options.push_back({"num_nextn_predict_layers", &HfConfig::predicting_layers, 1, "num_mtp_layers"});
  return {
      .name = "glm4_moe",  // GLM-4.5-Air
      .architecture = "Glm4MoeForCausalLM",
      .prefix = "model.",
      .blocks = {.out_bias = false, .experts = HfExperts::after, .shared_gate = false, .sigmoid_router = true},
      .defaults = {.kv_heads = 8, .context = 131072, .norm_eps = 1e-5, .partial_rotary = 0.5},
      .any_width = true,
      .renamed = {kEpsOfRms},
      .options = std::move(options),
      .fixed = {{"use_qk_norm", false, "norms of queries and keys by a switch, which tern's glm4_moe does not have"}},
      .names = with_shared_experts(kLlamaNames)};
}

// Gemma 2 without the norms after the branches.
HfFamily vaultgemma() {
  HfNames names = kLlamaNames;
  names.mlp_norm = "model.layers.#.pre_feedforward_layernorm";
  return {
      .name = "vaultgemma",
      .architecture = "VaultGemmaForCausalLM",
      .prefix = "model.",
      .blocks = {.norm = HfNorm::rms_plus_one, .scaled_embedding = true, .windows = HfWindows::listed, .full_every = 2},
      .defaults = {.kv_heads = 4,
                   .head_dim = 256,
                   .context = 8192,
                   .hidden_act = "gelu_pytorch_tanh",
                   .tied = true,
                   .bos = 2,
                   .eos = 1,
                   .pad = 0,
                   .window = 4096},
      .renamed = {kEpsOfRms, {"hidden_act", "hidden_activation"}},
      .options = {kAttentionBias,
                  {"query_pre_attn_scalar", &HfConfig::query_pre_attn_scalar, 256, "", true},
                  {"attn_logit_softcapping", &HfConfig::attn_logit_softcapping, 50},
                  {"final_logit_softcapping", &HfConfig::final_logit_softcapping, 30}},
      .harmless = {"hidden_act"},
      .names = names};
}

HfFamily cwm() {
  const HfRope llama3{.type = RopeType::llama3,
                      .theta = 1000000,
                      .factor = 16,
                      .original_max_position_embeddings = 8192,
                      .low_freq_factor = 1,
                      .high_freq_factor = 4};
  return {.name = "cwm",
          .architecture = "CwmForCausalLM",
          .prefix = "model.",
          // full_every 0: which layers have the window, layer_types must say
          .blocks = {.windows = HfWindows::listed, .full_every = 0},
          .defaults = {.kv_heads = 8,
                       .head_dim = 128,
                       .context = 131072,
                       .norm_eps = 1e-5,
                       .bos = 128000,
                       .rope_theta = 1000000,
                       .window = 8192,
                       .rope = llama3},
          .any_width = true,
          .renamed = {kEpsOfRms},
          .options = {kMlpBias},
          .fixed = {{"attention_bias", false, "and cwm has no biases there"}},
          .names = kLlamaNames};
}

HfFamily iquestcoder() {
  return {.name = "iquestcoder",
          .architecture = "LlamaForCausalLM",
          .prefix = "model.",
          .defaults = {.kv_heads = 8, .head_dim = 128, .context = 131072, .norm_eps = 1e-5, .bos = 1, .eos = 2},
          .any_width = true,
          .renamed = {kEpsOfRms},
          .options = {kAttentionBias, kMlpBias},
          .fixed = {{"use_sliding_window", false, "windows, which tern's iquestcoder does not have"}},
          .harmless = {"max_window_layers"},
          .names = kLlamaNames};
}

}  // namespace

void add_later_mixtures(std::vector<HfFamily>& f) {
  f.push_back(olmoe());
  f.push_back(dots1());
  f.push_back(glm4_moe());
  f.push_back(vaultgemma());
  f.push_back(cwm());
  f.push_back(iquestcoder());
}

}  // namespace tern
