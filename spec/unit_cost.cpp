#include "spec/unit_cost.h"

#include <algorithm>
#include <cmath>

#include "base/wide_type.h"
#include "spec/context_cost.h"
#include "spec/norm_widths.h"
#include "spec/unit_cost_impl.h"
#include "spec/unit_parts.h"

namespace tern {
namespace {

using namespace closed_forms;

UnitCost cost(const EmbedSpec& u, const Sizes& z) {
  UnitCost c;
  c.parameters = (largest_part(u.vocab, z.query.tensor) + u.positions + u.token_types) * u.width;
  const int64_t tables = 1 + (u.positions ? 1 : 0) + (u.token_types ? 1 : 0);
  c.output_bytes = z.N * u.width * z.s;
  if (u.norm.present()) c.parameters += norm_parameters(u.norm), c.saved_bytes = c.output_bytes + norm_saved(u.norm, z);
  c.forward_workspace = c.unsaved_workspace = z.gathered(u.width);  // partial rows before their sum
  c.forward_exchanged = c.backward_weight_exchanged = z.gathered(u.width);
  c.forward_bytes_moved = c.output_bytes * 2 * tables;
  c.backward_weight_workspace = z.gathered(u.width) + (u.norm.present() || u.multiplier != 1 ? z.N * u.width * z.s : 0);
  c.backward_weight_bytes_moved = z.T * u.width * (z.s + 2 * z.g) * tables;
  finish(c, {}, z);
  return c;
}

UnitCost cost(const BridgeSpec& u, const Sizes& z) {
  UnitCost c;
  c.parameters = norm_parameters(u.norm);
  c.output_bytes = 2 * z.N * u.width * z.s;  // the encoder's output and the decoder's input travel together
  c.saved_bytes = norm_saved(u.norm, z);
  c.left_bytes = z.N * u.width * z.s;
  c.forward_workspace = c.unsaved_workspace = z.gathered(u.width);
  c.forward_bytes_moved = 2 * c.output_bytes;
  c.backward_input_bytes_moved = 2 * c.output_bytes;
  c.backward_weight_bytes_moved = z.T * u.width * (z.s + 2 * z.g);
  finish(c, {}, z);
  return c;
}

UnitCost cost(const AttentionSpec& u, const Sizes& z) { return attention_cost(u, z); }

UnitCost cost(const MlpSpec& u, const Sizes& z) {
  const int64_t T = z.T, N = z.N, D = u.width, F = largest_part(u.hidden, z.query.tensor), G = u.gated ? 2 * F : F,
                s = z.s;
  const int64_t normed = u.norm.present() ? N * D * s : 0;
  const AdaptedMatrix up = up_matrix(z.adapters, F, u.gated), down = z.matrix(AdaptedModule::down, D);
  const Join join = cost_of(u.join, z, D);
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + G * D + D * F + (u.bias ? G + D : 0) + join.parameters;
  c.output_bytes = N * D * s;
  c.saved_bytes = norm_saved(u.norm, z) + T * G * s + join.saved;  // rstd, up before the activation, then dup
  c.left_bytes = T * F * s + normed;                               // hidden, dnormed
  const int64_t gathered = z.gathered(D);
  c.forward_workspace = std::max(normed + gathered + z.forward(T, up, D), gathered + T * F * s + z.forward(T, down, F));
  c.unsaved_workspace = std::max({normed + gathered + T * G * s + z.forward(T, up, D), T * (G + F) * s,
                                  gathered + T * F * s + z.forward(T, down, F)});
  c.backward_input_workspace =
      join.workspace + gathered + std::max(z.input_gradient(T, down, F), z.input_gradient(T, up, D));
  c.backward_weight_workspace =
      join.workspace + gathered + std::max(z.weight_gradient(T, down, F), normed + z.weight_gradient(T, up, D));

  c.forward_exchanged = c.backward_input_exchanged = c.backward_weight_exchanged = 2 * gathered;
  c.forward_flops = c.backward_input_flops = c.backward_weight_flops = 2 * T * D * (G + F);
  const int64_t weights = c.parameters * s, rows = T * s, own = N * s;
  c.forward_bytes_moved = weights + rows * (2 * D + 2 * G + 2 * F) + own * kNormWidths.forward * D;
  c.backward_input_bytes_moved = weights + rows * (2 * D + 3 * G + 3 * F) + own * kNormWidths.backward_input * D;
  c.backward_weight_bytes_moved =
      2 * c.parameters * z.g + rows * (2 * D + G + F) + own * kNormWidths.backward_weight * D;
  Adapter a;
  add_adapter(a, T, up, D);
  add_adapter(a, T, down, F);
  finish(c, a, z);
  return c;
}

// One after the other into one result; the MLP's waits in a tensor of its own.
UnitCost cost(const ParallelSpec& u, const Sizes& z) {
  UnitCost c = cost(u.attention, z);
  const UnitCost m = cost(u.mlp, z);
  const int64_t rows = z.N * u.mlp.width * z.s;
  // What the MLP keeps begins after attention's temporaries have gone; those of swaps and rings are the most beside anything.
  const bool most = z.swaps || z.ring;
  const int64_t later = most ? 0 : m.saved_bytes, left_later = most ? 0 : m.left_bytes;
  c.forward_workspace = std::max(c.forward_workspace - later, rows + m.forward_workspace);
  c.unsaved_workspace = std::max(c.unsaved_workspace, rows + m.unsaved_workspace);
  c.backward_input_workspace = std::max(c.backward_input_workspace - left_later, rows + m.backward_input_workspace);
  c.backward_weight_workspace = std::max(c.backward_weight_workspace, m.backward_weight_workspace);
  const int64_t shared = u.shared_norm ? norm_parameters(u.attention.norm) : 0;
  c.parameter_bytes += m.parameter_bytes;
  c.parameters += m.parameters - shared, c.trained += m.trained - (z.frozen ? 0 : shared);
  c.saved_bytes += m.saved_bytes, c.left_bytes += m.left_bytes;
  c.forward_exchanged += m.forward_exchanged, c.backward_input_exchanged += m.backward_input_exchanged;
  c.backward_weight_exchanged += m.backward_weight_exchanged;
  c.forward_flops += m.forward_flops, c.backward_input_flops += m.backward_input_flops;
  c.backward_weight_flops += m.backward_weight_flops;
  c.forward_bytes_moved += m.forward_bytes_moved + 2 * rows;
  c.backward_input_bytes_moved += m.backward_input_bytes_moved + 2 * rows;
  c.backward_weight_bytes_moved += m.backward_weight_bytes_moved;
  return c;
}

// R rows at this rank's experts, X experts at it, K = top_k. The experts' products are the exact multiplier's, whoever
// multiplies the rest: their rows differ from step to step, which a library that compiles for a shape does not like.
// Longer than a screen: one sum per figure of a unit, each beside the others that it is read against.
UnitCost cost(const MoeSpec& u, const Sizes& z) {
  const CostQuery& q = z.query;
  const int64_t T = z.T, N = z.N, D = u.width, s = z.s, g = z.g, R = expert_rows(u, q), K = u.top_k, E = u.experts;
  const int64_t X = largest_part(u.experts, q.expert), F = largest_part(u.hidden, q.expert_tensor),
                G = u.gated ? 2 * F : F;
  const int64_t S = largest_part(u.shared_hidden, q.tensor), Gs = u.gated ? 2 * S : S;
  const bool gate = S && u.shared_gate;
  const auto shared = [&](int64_t bytes) { return S ? bytes : 0; };
  const auto gated = [&](int64_t bytes) { return gate ? bytes : 0; };
  UnitCost c;
  c.expert_parameters = X * (G * D + D * F + (u.expert_bias ? G + D : 0));
  c.parameters =
      norm_parameters(u.norm) + D * E + (u.router_bias ? E : 0) + c.expert_parameters + Gs * D + D * S + (gate ? D : 0);
  c.output_bytes = N * D * s;
  const bool group = q.expert > 1;
  // Probabilities, weights of the chosen; which, where their rows are, whose rows they are, where an expert's begin; in an expert group how
  // many come for this rank's.
  const int64_t order = group ? N * K * 4 + (E + 1) * 4 + E * 4 : R * 4 + (X + 1) * 4;
  const int64_t routing = N * E * g + N * K * (g + 8) + order + gated(T * g);
  const int64_t sent = group ? R * D * s : 0;  // rows at this rank's experts, and their gradients, are kept
  c.saved_bytes = norm_saved(u.norm, z) + routing + sent + R * G * s + T * Gs * s;  // up before the activation
  const int64_t normed = u.norm.present() ? N * D * s : 0, gathered = shared(z.gathered(D));
  // dup, dnormed, dlogits; of the shared MLP and its gate
  c.left_bytes = R * G * s + sent + normed + N * E * s + T * Gs * s + gated(T * s);
  const int64_t rows = R * D * s, hidden = R * F * s, shared_hidden = T * S * s;
  const int64_t own = group ? N * K * D * s : rows,
                beside = group ? own : 0;  // of this rank's tokens; beside those at its experts
  const auto experts = [&](int64_t out, int64_t in) { return z(kExpertForward, R, out, in); };
  const int64_t at_input = std::max({z(kForward, N, E, D), shared(shared_hidden + z(kForward, T, D, S)), own});
  c.forward_workspace =
      std::max({normed + gathered + std::max({at_input, shared(z(kForward, T, Gs, D)), gated(z(kForward, T, 1, D))}),
                (group ? 0 : rows) + experts(G, D), hidden + rows + experts(D, F), rows + beside});
  c.unsaved_workspace =
      routing +
      std::max({normed + gathered + at_input,
                normed + gathered +
                    shared(T * Gs * s + std::max({z(kForward, T, Gs, D), gated(z(kForward, T, 1, D)), shared_hidden})),
                rows + R * G * s + experts(G, D), R * G * s + hidden, hidden + rows + experts(D, F), rows + beside});
  const int64_t weights_and_dots = group ? 2 * R * g : N * K * g;
  c.backward_input_workspace =
      std::max({group ? 0 : rows + hidden, 2 * hidden + weights_and_dots, rows + beside + N * K * g,
                gathered + shared(shared_hidden + z(kInputGradient, T, D, S)), gated(2 * shared_hidden + T * g),
                N * D * s + gathered +
                    std::max({z(kInputGradient, N, E, D), shared(z(kInputGradient, T, Gs, D)),
                              gated(z(kInputGradient, T, 1, D))})});
  c.backward_weight_workspace =
      std::max({hidden + (group ? 0 : rows), group ? 0 : normed + rows,
                normed + gathered +
                    std::max({z(kWeightGradient, N, E, D), shared(z(kWeightGradient, T, Gs, D)),
                              gated(z(kWeightGradient, T, 1, D))}),
                gathered + shared(shared_hidden + gated(T * D * s) + z(kWeightGradient, T, D, S))});

  const int64_t products = 2 * R * D * (G + F) + 2 * T * D * (Gs + S) + 2 * N * D * E + gated(2 * T * D);
  c.forward_flops = c.backward_input_flops = c.backward_weight_flops = products;
  const int64_t weights = c.parameters * s;
  const int64_t moved = (R * (4 * D + 2 * G + 2 * F) + T * (2 * Gs + 2 * S)) * s + N * 5 * D * s;
  c.forward_bytes_moved = weights + moved;
  c.backward_input_bytes_moved = weights + moved + R * (G + F) * s;
  c.backward_weight_bytes_moved = 2 * c.parameters * g + moved;
  Adapter a;  // one per expert; each row meets one expert's
  const AdaptedMatrix down = z.matrix(AdaptedModule::down, D);
  add_adapter(a, R, up_matrix(z.adapters, F, u.gated), D, X);
  add_adapter(a, R, down, F, X);
  c.expert_trained = (z.frozen ? 0 : c.expert_parameters) + a.parameters;
  c.expert_parameters += a.parameters;
  if (S) add_adapter(a, T, up_matrix(z.adapters, S, u.gated), D), add_adapter(a, T, down, S);
  finish(c, a, z);
  return c;
}

UnitCost cost(const HeadSpec& u, const Sizes& z) {
  const int64_t T = z.T, D = u.width, V = largest_part(u.vocab, z.query.tensor);
  const int64_t tile = std::min(T, kHeadTile), tail = T % kHeadTile;
  const bool rounded = z.s < z.g;  // bf16: the logits' gradient is rounded before it is multiplied
  UnitCost c;
  c.parameters = norm_parameters(u.norm) + (u.tied ? 0 : V * D);
  c.output_bytes = 0;
  c.saved_bytes = norm_saved(u.norm, z) + z.N * D * z.s;          // rstd, dnormed
  const int64_t decoded = z.coded ? z(kDecoded, tile, V, D) : 0;  // once, for all tiles
  const auto widest = [&](ProductKind product) {
    return z.coded && decoded == 0 ? 0 : std::max(z(product, tile, V, D), z(product, tail, V, D));
  };
  // A tile's normed rows and logits; what the forward product needs is held for all tiles (exact: the packed
  // projection). Split over ranks: all normed rows instead, and the partial sums of their gradients.
  const int64_t normed = z.split() ? 2 * z.gathered(D) : tile * D * z.s;
  c.unsaved_workspace = decoded + normed + tile * V * z.g + widest(kForward);
  c.forward_workspace = c.unsaved_workspace + (rounded ? tile * V * z.s : 0) + (u.softcap != 0 ? tile * V * z.g : 0) +
                        std::max(widest(kInputGradient), z.frozen ? 0 : widest(kWeightGradient));
  const int64_t fused_tile = std::min(T, kFusedHeadTile);
  const bool in_one = !z.frozen && u.softcap == 0;
  const int64_t fused = in_one ? z(kHeadLoss, fused_tile, V, D) : 0;
  if (fused > 0) c.forward_workspace = (z.split() ? normed : fused_tile * D * z.s) + fused;
  if (z.split())
    c.forward_exchanged = 2 * z.gathered(D) + z.query.tensor * T * kNumbersOfARow * int64_t{sizeof(double)};
  c.forward_flops = (z.frozen ? 4 : 6) * T * V * D;  // logits, their input's gradient, the table's
  const int64_t num_tiles = T ? (T + kHeadTile - 1) / kHeadTile : 0;
  c.forward_bytes_moved = num_tiles * V * D * (2 * z.s + (z.frozen ? 0 : 2 * z.g)) + T * D * z.s * 5 +
                          T * V * (4 * z.g + (rounded ? 3 * z.s : 0));
  if (fused > 0)
    c.forward_bytes_moved =
        (T + kFusedHeadTile - 1) / kFusedHeadTile * V * D * (2 * z.s + 2 * z.g) + T * D * z.s * 5 + T * V * z.s * 3;
  c.backward_input_bytes_moved = z.N * D * z.s * 3;
  c.backward_weight_bytes_moved = z.N * D * z.s * 2;
  finish(c, {}, z);
  return c;
}

}  // namespace

AlikeParameters alike_parameters(const Unit& unit, int64_t tensor) {
  AlikeParameters n;
  if (tensor == 1) return n;
  if (const auto* e = std::get_if<EmbedSpec>(&unit.spec))
    n.all += norm_parameters(e->norm) + (e->positions + e->token_types) * e->width;
  if (const auto* h = std::get_if<HeadSpec>(&unit.spec)) n.all += norm_parameters(h->norm);
  if (const AttentionSpec* a = attention_of(unit)) {
    n.all += norm_parameters(a->norm) + norm_parameters(a->join.norm) + (a->out_bias ? a->width : 0);
    if (a->head_norm != HeadNormKind::none) n.all += a->query_norm_width() + a->key_norm_width();
    if (a->kv_heads < tensor) n.keys += 2 * a->head_dim * (a->width + (a->qkv_bias ? 1 : 0));
  }
  const auto* both = std::get_if<ParallelSpec>(&unit.spec);
  if (const MlpSpec* m = mlp_of(unit))
    n.all += (both && both->shared_norm ? 0 : norm_parameters(m->norm)) + norm_parameters(m->join.norm) +
             (m->bias ? m->width : 0);
  return n;
}

int64_t own_table_gradient(const Unit& unit, const CostQuery& q) {
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  return head && head->tied && !unit.frozen ? largest_part(head->vocab, q.tensor) * head->width : 0;
}

static UnitCost cost_of(const Unit& unit, const CostQuery& q, bool swaps, bool ring) {
  const int64_t s = size_of(q.dtype), g = size_of(wide_type(q.dtype));
  const Sizes sizes{q.tokens, split_rows(q), q.attended_pairs, s, g, unit.adapters, unit.frozen, unit.stored.coded, q,
                    swaps,    ring};
  UnitCost c = std::visit([&](const auto& spec) { return cost(spec, sizes); }, unit.spec);
  if (c.trained == 0) {  // what would be left for the weights' gradients ends with BACKWARD_INPUT
    c.backward_input_workspace += c.left_bytes;
    c.left_bytes = c.backward_weight_workspace = c.backward_weight_bytes_moved = c.backward_weight_exchanged = 0;
  }
  c.parameter_bytes += (c.parameters - unit.stored.elements) * s + unit.stored.bytes;
  if (const MoeSpec* m = moe_of(unit); m && m->choice_bias) c.parameter_bytes += m->experts * g;
  c.gradient_bytes = (c.trained + own_table_gradient(unit, q)) * g;
  return c;
}

UnitCost unit_cost(const Unit& unit, const CostQuery& q) { return cost_of(unit, q, false, false); }
UnitCost unit_cost_in_context(const Unit& unit, const CostQuery& q) { return cost_of(unit, q, true, false); }
UnitCost unit_cost_in_ring(const Unit& unit, const CostQuery& q) { return cost_of(unit, q, false, true); }

UnitCost unit_cost_in_mesh(const Unit& unit, const CostQuery& q, const Mesh& mesh) {
  if (mesh.context == 1) return unit_cost(unit, q);
  return mesh.ulysses ? unit_cost_in_context(unit, q) : unit_cost_in_ring(unit, q);
}

SwappedBytes swapped_bytes(const Unit& unit, const CostQuery& q) {
  const AttentionSpec* whole = attention_of(unit);
  if (!whole) return {};
  const AttentionSpec u = with_own_heads(*whole, q.tensor);
  const int64_t in = q.tokens * u.qkv_rows() * size_of(q.dtype),
                back = q.tokens * u.heads * u.head_dim * size_of(q.dtype);
  const int64_t again = u.head_norm == HeadNormKind::none ? 0 : in;  // kept before the norms, not after the swap
  return {in + back, in + back + again, unit_cost(unit, q).trained > 0 ? back : 0};
}

RingBytes ring_bytes(const Unit& unit, const CostQuery& q, int64_t ranks) {
  const AttentionSpec* whole = attention_of(unit);
  if (!whole) return {};
  const int64_t keys = q.tokens * 2 * with_own_heads(*whole, q.tensor).kv_heads * whole->head_dim,
                passed = (ranks - 1) * keys * size_of(q.dtype);
  return {passed, passed + ranks * keys * size_of(wide_type(q.dtype))};
}

int64_t expert_rows(const MoeSpec& u, const CostQuery& q) {
  const int64_t tokens = q.expert_tensor > 1 ? q.tokens : split_rows(q);
  if (q.expert == 1) return tokens * u.top_k;
  // Every row of all ranks is the most that can come.
  const double factor = std::min(q.capacity_factor, static_cast<double>(q.expert));
  return static_cast<int64_t>(std::ceil(factor * static_cast<double>(tokens * u.top_k)));
}

}  // namespace tern
