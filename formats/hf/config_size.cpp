// The closed forms of spec/unit_cost.cpp in doubles, so that no value of a file overflows what judges it.
#include <algorithm>

#include "formats/hf/config_impl.h"

namespace tern {
namespace {

struct Sizes {
  double parameters = 0, row = 0;
};

// Letters as in spec/unit_cost.cpp: D width, H heads, C rows of queries, keys and values, E of queries, V of values.
Sizes attention_sizes(const HfConfig& c, const HfBlocks& blocks, double D, double before, double after) {
  const auto H = static_cast<double>(c.num_attention_heads), K = static_cast<double>(c.num_key_value_heads);
  const auto d = static_cast<double>(c.head_dim), bias = c.attention_bias ? 1.0 : 0.0;
  const double out_bias = c.attention_bias && blocks.out_bias ? D : 0;
  if (blocks.latent) {
    const auto plain = static_cast<double>(c.plain_head_dim), value = static_cast<double>(c.value_head_dim);
    const auto rq = static_cast<double>(c.query_rank), rk = static_cast<double>(c.kv_rank);
    const double rr = rk + d, E = H * (plain + d), U = H * (plain + value), V = H * value;
    return {
        before + rq * D + rq + bias * rq + E * (rq > 0 ? rq : D) + rr * D + rk + bias * rr + U * rk + D * V + out_bias,
        rq + 3 * E + rr + U + V};
  }
  const double C = (H + 2 * K) * d, E = H * d;
  const double heads = blocks.head_norm == HfHeadNorm::head  ? 2 * d
                       : blocks.head_norm == HfHeadNorm::row ? E + K * d
                                                             : 0;
  return {before + C * D + bias * C + D * E + out_bias + heads + (blocks.sinks ? H : 0) + after, C + E};
}

Sizes mlp_sizes(const HfBlocks& blocks, double D, double hidden, bool bias) {
  const double up = blocks.gated ? 2 * hidden : hidden;
  return {up * D + D * hidden + (bias ? up + D : 0), up + hidden};
}

Sizes moe_sizes(const HfConfig& c, const HfBlocks& blocks, double D) {
  const auto X = static_cast<double>(c.num_experts), chosen = static_cast<double>(c.experts_per_token);
  const Sizes one = mlp_sizes(blocks, D, static_cast<double>(c.expert_size > 0 ? c.expert_size : c.intermediate_size),
                              blocks.expert_bias);
  const Sizes shared = mlp_sizes(blocks, D, static_cast<double>(c.shared_expert_size), false);
  const double gate = c.shared_expert_size > 0 && blocks.shared_gate ? D : 0;
  const double bias = blocks.router_bias ? X : 0;
  return {D * X + bias + X * one.parameters + shared.parameters + gate, X + chosen * (one.row + D) + shared.row};
}

}  // namespace

HfSize hf_config_size(const HfConfig& c) {
  const HfBlocks blocks = hf_blocks(c);
  const auto D = static_cast<double>(c.hidden_size), vocab = static_cast<double>(c.vocab_size);
  const auto context = static_cast<double>(c.max_position_embeddings);
  const double norm = blocks.norm == HfNorm::layer ? 2 * D : D;
  const double before = blocks.place == HfNormPlace::before || blocks.place == HfNormPlace::around ? norm : 0;
  const double after = blocks.place == HfNormPlace::before ? 0 : norm;
  const auto layers = static_cast<double>(c.num_hidden_layers);
  const double mixtures = c.num_experts == 0        ? 0
                          : c.expert_layers.empty() ? layers
                                                    : static_cast<double>(std::ranges::count(c.expert_layers, true));

  const Sizes attention = attention_sizes(c, blocks, D, before, after);
  const Sizes mlp = mlp_sizes(blocks, D, static_cast<double>(c.intermediate_size), c.mlp_bias);
  const Sizes moe = moe_sizes(c, blocks, D);
  const double shared_norm = c.parallel_residual && blocks.shared_norm ? norm : 0;
  const double positions =
      blocks.positions == HfPositions::learned ? context + static_cast<double>(blocks.position_offset) : 0;
  HfSize size;
  size.experts = mixtures * static_cast<double>(c.num_experts);
  size.parameters = layers * (attention.parameters - shared_norm) +
                    (layers - mixtures) * (before + mlp.parameters + after) + mixtures * (before + moe.parameters) +
                    (vocab + positions + static_cast<double>(c.type_vocab_size)) * D +
                    (hf_names(c).embed_norm.empty() ? 0 : norm) + (blocks.causal ? norm : 0) +
                    (c.tie_word_embeddings || !blocks.causal ? 0 : vocab * D);
  size.row = layers * (attention.row + 4 * D) + (layers - mixtures) * mlp.row + mixtures * moe.row;
  return size;
}

void check_hf_size(const HfConfig& c, ErrorKind kind, std::string_view place) {
  // Bytes and FLOPs of a pass, which the closed forms count in 64 bits, stay well below 2^63 within these.
  constexpr double kMostParameters = 1e16, kMostRows = 1e15, kMostWork = 1e17, kMostExperts = 131'072;
  const auto fail = [&](std::string_view field, const std::string& fact) {
    throw Error(kind, "{}: {}: {}", place, hf_key(c.model_type, field), fact);
  };
  const HfSize size = hf_config_size(c);
  if (size.experts > kMostExperts)
    fail("num_hidden_layers", fmt::format("{} layers of {} experts are {:.0f} experts, expected at most {:.0f} in all",
                                          c.num_hidden_layers, c.num_experts, size.experts, kMostExperts));
  if (size.parameters > kMostParameters)
    fail(
        "num_hidden_layers",
        fmt::format("{} layers of this size and a vocabulary of {} are {:.0e} parameters, more than tern counts (1e16)",
                    c.num_hidden_layers, c.vocab_size, size.parameters));
  const auto context = static_cast<double>(c.max_position_embeddings);
  const double longest =
      c.rope.type == RopeType::dynamic ? context * std::max(1.0, c.rope.factor.value_or(1)) : context;
  if (std::min(longest, 0x1p31) * size.row > kMostRows)
    fail("max_position_embeddings",
         fmt::format("{:.0f} positions of a model of this size are {:.0e} numbers, more than tern counts (1e15)",
                     longest, longest * size.row));
  if (!hf_blocks(c).causal && context * std::max(size.parameters, context * size.row) > kMostWork)
    fail("max_position_embeddings",
         fmt::format("{} positions that all see each other, in a model of {:.0e} parameters, "
                     "are more than tern counts (1e17)",
                     c.max_position_embeddings, size.parameters));
}

}  // namespace tern
