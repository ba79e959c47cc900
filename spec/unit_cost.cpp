#include "spec/unit_cost.h"

#include <algorithm>

namespace tern {

namespace {

// Letters: T tokens, D width, E = heads·head_dim, C = (heads + 2·kv_heads)·head_dim, F hidden, G = 2F gated or F, V
// vocab, s bytes of a weight or activation, g bytes of a gradient or statistic.
struct Sizes {
  int64_t T, P, s, g;
  const ScratchBytes& scratch;
  // Products by what they are: scratch(kForward, rows, out, in).
  int64_t operator()(int product, int64_t m, int64_t n, int64_t k) const {
    return scratch && m ? scratch(product, m, n, k) : 0;
  }
};
constexpr int kForward = 0, kInputGradient = 1, kWeightGradient = 2;

int64_t norm_parameters(const NormSpec& n) { return n.width * (n.kind == NormKind::layer ? 2 : 1); }
// rstd, and the mean of a layer norm, per row
int64_t norm_saved(const NormSpec& n, const Sizes& z) { return z.T * z.g * (n.kind == NormKind::layer ? 2 : 1); }

UnitCost cost(const EmbedSpec& u, const Sizes& z) {
  UnitCost c;
  c.parameters = (u.vocab + u.positions) * u.width;
  c.output_bytes = z.T * u.width * z.s;
  c.forward_bytes_moved = c.output_bytes * (u.positions ? 4 : 2);
  c.backward_weight_bytes_moved = z.T * u.width * (z.s + 2 * z.g) * (u.positions ? 2 : 1);
  return c;
}

UnitCost cost(const AttentionSpec& u, const Sizes& z) {
  const int64_t T = z.T, D = u.width, E = u.heads * u.head_dim, C = u.qkv_rows(), s = z.s;
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + C * D + (u.qkv_bias ? C : 0) + D * E + (u.out_bias ? D : 0);
  c.output_bytes = T * D * s;
  c.saved_bytes = norm_saved(u.norm, z) + T * C * s + T * E * s + T * u.heads * z.g;  // rstd, qkv, context, lse
  c.left_bytes = T * C * s + T * D * s;                                               // dqkv, dnormed
  c.forward_workspace = std::max(T * D * s + z(kForward, T, C, D),                    // normed while qkv is made
                                 z(kForward, T, D, E));
  c.unsaved_workspace =
      std::max({T * (D + C) * s + z(kForward, T, C, D), T * (C + E) * s, T * E * s + z(kForward, T, D, E)});
  c.backward_input_workspace = std::max(T * E * s + z(kInputGradient, T, D, E),  // dcontext
                                        z(kInputGradient, T, C, D));
  c.backward_weight_workspace = std::max(z(kWeightGradient, T, D, E), T * D * s + z(kWeightGradient, T, C, D));

  const int64_t products = 2 * T * D * (C + E);
  c.forward_flops = products + 4 * z.P * E;          // q·k and p·v
  c.backward_input_flops = products + 10 * z.P * E;  // scores again, dp, dv, dq, dk
  c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s, rows = T * s;
  c.forward_bytes_moved = weights + rows * (2 * D + D + C + C + E + E + 2 * D);
  c.backward_input_bytes_moved = weights + rows * (D + E + (C + 2 * E) + C + C + D + 3 * D);
  c.backward_weight_bytes_moved = 2 * c.parameters * z.g + rows * (D + E + 2 * D + C + D + 2 * D);
  return c;
}

UnitCost cost(const MlpSpec& u, const Sizes& z) {
  const int64_t T = z.T, D = u.width, F = u.hidden, G = u.gated ? 2 * F : F, s = z.s;
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + G * D + D * F + (u.bias ? G + D : 0);
  c.output_bytes = T * D * s;
  c.saved_bytes = norm_saved(u.norm, z) + T * G * s;  // rstd, up before the activation
  c.left_bytes = T * G * s + T * D * s;               // dup, dnormed
  c.forward_workspace = std::max(T * D * s + z(kForward, T, G, D), T * F * s + z(kForward, T, D, F));
  c.unsaved_workspace =
      std::max({T * (D + G) * s + z(kForward, T, G, D), T * (G + F) * s, T * F * s + z(kForward, T, D, F)});
  c.backward_input_workspace = std::max(T * F * s + z(kInputGradient, T, D, F), z(kInputGradient, T, G, D));
  c.backward_weight_workspace =
      std::max(T * F * s + z(kWeightGradient, T, D, F), T * D * s + z(kWeightGradient, T, G, D));

  c.forward_flops = c.backward_input_flops = c.backward_weight_flops = 2 * T * D * (G + F);
  const int64_t weights = c.parameters * s, rows = T * s;
  c.forward_bytes_moved = weights + rows * (2 * D + D + G + G + F + F + 2 * D);
  c.backward_input_bytes_moved = weights + rows * (D + F + 2 * G + F + G + D + 3 * D);
  c.backward_weight_bytes_moved = 2 * c.parameters * z.g + rows * (G + 2 * F + D + 2 * D + G + D + 2 * D);
  return c;
}

UnitCost cost(const HeadSpec& u, const Sizes& z) {
  const int64_t T = z.T, D = u.width, V = u.vocab, tile = std::min(T, kHeadTile), tail = T % kHeadTile;
  const bool rounded = z.s < z.g;  // bf16: the logits' gradient is rounded before it is multiplied
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + (u.tied ? 0 : V * D);
  c.output_bytes = 0;
  c.saved_bytes = norm_saved(u.norm, z) + T * D * z.s;  // rstd, dnormed
  const auto widest = [&](int product) { return std::max(z(product, tile, V, D), z(product, tail, V, D)); };
  // A tile's normed rows and logits; what the forward product needs is held for all tiles (exact: the packed
  // projection).
  c.unsaved_workspace = tile * D * z.s + tile * V * z.g + widest(kForward);
  c.forward_workspace =
      c.unsaved_workspace + (rounded ? tile * V * z.s : 0) + std::max(widest(kInputGradient), widest(kWeightGradient));
  c.forward_flops = 6 * T * V * D;
  const int64_t num_tiles = T ? (T + kHeadTile - 1) / kHeadTile : 0;
  c.forward_bytes_moved =
      num_tiles * V * D * (2 * z.s + 2 * z.g) + T * D * z.s * 5 + T * V * (4 * z.g + (rounded ? 3 * z.s : 0));
  c.backward_input_bytes_moved = T * D * z.s * 3;
  c.backward_weight_bytes_moved = T * D * z.s * 2;
  return c;
}

}  // namespace

UnitCost unit_cost(const Unit& unit, const CostQuery& q) {
  const int64_t s = size_of(q.dtype), g = q.dtype == DType::f64 ? 8 : 4;
  const Sizes sizes{q.tokens, q.attended_pairs, s, g, q.scratch};
  UnitCost c = std::visit([&](const auto& spec) { return cost(spec, sizes); }, unit.spec);
  c.parameter_bytes = c.parameters * s;
  c.gradient_bytes = c.parameters * g;
  return c;
}

int64_t attended_pairs(int64_t queries, int64_t past, int64_t window) {
  // Query i, counted from 1, sees past + i keys, or the window if that is fewer.
  if (window <= 0) return queries * past + queries * (queries + 1) / 2;
  const int64_t growing = std::clamp<int64_t>(window - past, 0, queries);  // queries that do not fill the window yet
  return growing * past + growing * (growing + 1) / 2 + (queries - growing) * window;
}

double training_flops_per_token(const ModelSpec& spec, int64_t seq) {
  if (seq <= 0) return 0;
  double flops = 0;
  for (const Unit& unit : spec.units) {
    const double parameters = static_cast<double>(unit_cost(unit, {}).parameters);
    if (std::holds_alternative<EmbedSpec>(unit.spec)) continue;
    flops += 6 * parameters;
    if (const auto* a = std::get_if<AttentionSpec>(&unit.spec))
      flops += 12.0 * static_cast<double>(a->heads * a->head_dim) *
               static_cast<double>(attended_pairs(seq, 0, a->window)) / static_cast<double>(seq);
    if (const auto* h = std::get_if<HeadSpec>(&unit.spec); h && h->tied)
      flops += 6.0 * static_cast<double>(h->width) * static_cast<double>(h->vocab);
  }
  return flops;
}

}  // namespace tern
