// The rows of encoders: no next token, so tern embed is what they are for.
// Source of all rows: formats/hf/family.cpp.

#include "formats/hf/family_impl.h"

namespace tern {

void add_encoders(std::vector<HfFamily>& f) {
  f.push_back({.name = "bert",
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
               .options = {{"hidden_dropout_prob", &HfConfig::residual_dropout, 0.1},
                           {"type_vocab_size", &HfConfig::type_vocab_size, 2}},
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

}  // namespace tern
