#include "model/unit.h"

#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

void check_rows(const Rows& rows) {
  const auto T = static_cast<int64_t>(rows.tokens.size());
  TERN_CHECK(!rows.starts.empty() && rows.starts.front() == 0 && rows.starts.back() == T &&
                 static_cast<int64_t>(rows.positions.size()) == T,
             "Rows: {} tokens, {} positions, {} starts", T, rows.positions.size(), rows.starts.size());
}

size_t layer_of(const Unit& unit) { return static_cast<size_t>(unit.layer); }

}  // namespace

Rows make_rows(std::span<const int32_t> tokens, std::vector<int64_t> starts, const RopeTable* rope) {
  Rows rows{
      .tokens = tokens, .starts = std::move(starts), .positions = std::vector<int32_t>(tokens.size()), .rope = rope};
  check_rows(rows);
  for (size_t s = 0; s + 1 < rows.starts.size(); ++s) {
    TERN_CHECK(rows.starts[s] <= rows.starts[s + 1], "make_rows: sequence {} ends before it starts", s);
    for (int64_t t = rows.starts[s]; t < rows.starts[s + 1]; ++t)
      rows.positions[static_cast<size_t>(t)] = static_cast<int32_t>(t - rows.starts[s]);
  }
  return rows;
}

NormStatistics allocate_statistics(const NormSpec& norm, int64_t rows, DType dtype, const Compute& c) {
  NormStatistics s;
  if (!norm.present()) return s;
  s.rstd_T = c.arena.allocate(ops::sum_dtype(dtype), {rows}, MemoryClass::activations);
  if (norm.kind == NormKind::layer)
    s.mean_T = c.arena.allocate(ops::sum_dtype(dtype), {rows}, MemoryClass::activations);
  return s;
}

Tensor unit_forward(const ModelSpec& spec, const ModelWeights& weights, int index, const Rows& rows, const Tensor& x,
                    UnitSaved* saved, KvView* kv, const Compute& c) {
  check_rows(rows);
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec)) {
    EmbedSaved* mine = saved ? &saved->emplace<EmbedSaved>() : nullptr;
    return embed_forward(*u, weights.embed, rows, weights.embed.tokens.dtype(), mine, c);
  }
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec)) {
    AttentionSaved* mine = saved ? &saved->emplace<AttentionSaved>() : nullptr;
    return attention_unit_forward(*u, spec, weights.attention.at(layer_of(unit)), rows, x, mine, kv, unit.layer, c);
  }
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec)) {
    MlpSaved* mine = saved ? &saved->emplace<MlpSaved>() : nullptr;
    return mlp_forward(*u, weights.mlp.at(layer_of(unit)), x, mine, c);
  }
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec)) {
    ParallelSaved* mine = saved ? &saved->emplace<ParallelSaved>() : nullptr;
    const size_t at = layer_of(unit);
    return parallel_forward(*u, spec, weights.attention.at(at), weights.mlp.at(at), rows, x, mine, kv, unit.layer, c);
  }
  if (const MoeSpec* u = moe_of(unit)) {
    MoeSaved* mine = saved ? &saved->emplace<MoeSaved>() : nullptr;
    return moe_forward(*u, weights.moe.at(layer_of(unit)), x, mine, c);
  }
  TERN_CHECK(false, "unit_forward: the head ends in a loss or in logits (head_forward_loss, head_losses, head_logits)");
  return {};
}

Tensor unit_backward_input(const ModelSpec& spec, const ModelWeights& weights, int index, const Rows& rows,
                           const Tensor& dy, UnitSaved& saved, const Compute& c) {
  check_rows(rows);
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    return attention_unit_backward_input(*u, spec, weights.attention.at(layer_of(unit)), rows, dy,
                                         std::get<AttentionSaved>(saved), c);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec))
    return mlp_backward_input(*u, weights.mlp.at(layer_of(unit)), dy, std::get<MlpSaved>(saved), c);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec))
    return parallel_backward_input(*u, spec, weights.attention.at(layer_of(unit)), weights.mlp.at(layer_of(unit)), rows,
                                   dy, std::get<ParallelSaved>(saved), c);
  if (const MoeSpec* u = moe_of(unit))
    return moe_backward_input(*u, weights.moe.at(layer_of(unit)), dy, std::get<MoeSaved>(saved), c);
  if (const auto* u = std::get_if<HeadSpec>(&unit.spec))
    return head_backward_input(*u, weights.head, std::get<HeadSaved>(saved), c);
  TERN_CHECK(false, "unit_backward_input: tokens have no gradient");
  return {};
}

void unit_backward_weight(const ModelSpec& spec, const ModelWeights& weights, int index, const Rows& rows,
                          const Tensor& dy, UnitSaved& saved, ModelWeights& gradients, const Compute& c) {
  check_rows(rows);
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec))
    return embed_backward_weight(*u, weights.embed, rows, dy, std::get<EmbedSaved>(saved), gradients.embed, c);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec)) {
    const size_t at = layer_of(unit);
    return parallel_backward_weight(*u, weights.attention.at(at), weights.mlp.at(at), dy,
                                    std::get<ParallelSaved>(saved), gradients.attention.at(at), gradients.mlp.at(at),
                                    c);
  }
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    return attention_unit_backward_weight(*u, weights.attention.at(layer_of(unit)), dy, std::get<AttentionSaved>(saved),
                                          gradients.attention.at(layer_of(unit)), c);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec))
    return mlp_backward_weight(*u, weights.mlp.at(layer_of(unit)), dy, std::get<MlpSaved>(saved),
                               gradients.mlp.at(layer_of(unit)), c);
  if (const MoeSpec* u = moe_of(unit))
    return moe_backward_weight(*u, weights.moe.at(layer_of(unit)), dy, std::get<MoeSaved>(saved),
                               gradients.moe.at(layer_of(unit)), c);
  head_backward_weight(std::get<HeadSpec>(unit.spec), std::get<HeadSaved>(saved), gradients.head);
}

UnitSaved nothing_saved(const Unit& unit) {
  if (std::holds_alternative<AttentionSpec>(unit.spec)) return AttentionSaved{};
  if (std::holds_alternative<MlpSpec>(unit.spec)) return MlpSaved{};
  if (std::holds_alternative<HeadSpec>(unit.spec)) return HeadSaved{};
  if (std::holds_alternative<ParallelSpec>(unit.spec)) return ParallelSaved{};
  if (moe_of(unit)) return MoeSaved{};
  return EmbedSaved{};
}

void drop_left(UnitSaved& saved) {
  const auto drop_attention = [](AttentionSaved& a) {
    a.dqkv_TC = a.dnormed_TD = a.dquery_norm = a.dkey_norm = {};
    a.latent.dquery_TR = a.latent.dkv_TR = a.latent.dquery_norm = a.latent.dkv_norm = {};
  };
  const auto drop_mlp = [](MlpSaved& m) { m.dup_TG = m.hidden_TF = m.dnormed_TD = {}; };
  if (auto* a = std::get_if<AttentionSaved>(&saved)) drop_attention(*a);
  if (auto* m = std::get_if<MlpSaved>(&saved)) drop_mlp(*m);
  if (auto* m = std::get_if<MoeSaved>(&saved))
    m->dup_RG = m->dshared_up_TG = m->dshared_gate_T = m->dlogits_TE = m->dnormed_TD = {};
  if (auto* p = std::get_if<ParallelSaved>(&saved)) drop_attention(p->attention), drop_mlp(p->mlp);
}

Tensor model_forward(const ModelSpec& spec, const ModelWeights& weights, const Rows& rows, KvView* kv,
                     const Compute& c) {
  Tensor x;
  for (int unit = 0; unit + 1 < static_cast<int>(spec.units.size()); ++unit)
    x = unit_forward(spec, weights, unit, rows, x, nullptr, kv, c);
  return x;
}

}  // namespace tern
