#include "model/unit.h"

#include "base/wide_type.h"
#include "model/context_ranks.h"
#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

void check_rows(const Rows& rows, const ContextRanks* context = nullptr) {
  const auto T = static_cast<int64_t>(rows.tokens.size()), all = context ? T * context->comm.size() : T;
  TERN_CHECK(!rows.starts.empty() && rows.starts.front() == 0 && rows.starts.back() == all &&
                 static_cast<int64_t>(rows.positions.size()) == T,
             "Rows: {} tokens, {} positions, {} starts", T, rows.positions.size(), rows.starts.size());
}

// The unit that a pass is asked to run on these rows.
const Unit& unit_to_run(const ModelSpec& spec, int index, const Rows& rows, const Compute& c) {
  check_rows(rows, c.context);
  const Unit& unit = spec.units.at(static_cast<size_t>(index));
  TERN_CHECK(!std::holds_alternative<BridgeSpec>(unit.spec),
             "unit {}: a bridge between an encoder and a decoder is planned and not run", index);
  return unit;
}

// Of a unit that trains nothing: what its BACKWARD_INPUT made for weights' gradients. An MLP's dup stands in the place of
// what the forward saved, and ends with it.
void drop_unread(UnitSaved& saved) {
  MlpSaved* mlp = std::get_if<MlpSaved>(&saved);
  if (auto* both = std::get_if<ParallelSaved>(&saved)) mlp = &both->mlp;
  const Tensor dup = mlp ? mlp->dup_TG : Tensor{};
  drop_left(saved);
  if (mlp) mlp->dup_TG = dup;
}

template <class Saved>
Saved* begin(UnitSaved* saved) {
  return saved ? &saved->emplace<Saved>() : nullptr;
}

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
  s.rstd_T = c.arena.allocate(wide_type(dtype), {rows}, MemoryClass::activations);
  if (norm.kind == NormKind::layer) s.mean_T = c.arena.allocate(wide_type(dtype), {rows}, MemoryClass::activations);
  return s;
}

Tensor unit_forward(const ModelSpec& spec, int index, const UnitWeights& weights, const Rows& rows, const Tensor& x,
                    UnitSaved* saved, KvView* kv, const Compute& c) {
  const Unit& unit = unit_to_run(spec, index, rows, c);
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec)) {
    const auto& w = std::get<EmbedWeights>(weights);
    return embed_forward(*u, w, rows, w.tokens.dtype(), begin<EmbedSaved>(saved), c);
  }
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    return attention_unit_forward(*u, spec, std::get<AttentionWeights>(weights), rows, x, begin<AttentionSaved>(saved),
                                  kv, unit.layer, c);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec))
    return mlp_forward(*u, std::get<MlpWeights>(weights), static_cast<int64_t>(rows.tokens.size()), x,
                       begin<MlpSaved>(saved), c);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec))
    return parallel_forward(*u, spec, std::get<ParallelWeights>(weights), rows, x, begin<ParallelSaved>(saved), kv,
                            unit.layer, c);
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec))
    return moe_forward(*u, std::get<MoeWeights>(weights), x, begin<MoeSaved>(saved), c);
  TERN_CHECK(false, "unit_forward: the head ends in a loss or in logits (head_forward_loss, head_losses, head_logits)");
  return {};
}

// Left: the class of what BACKWARD_WEIGHT will read.
static Tensor backward_input(const ModelSpec& spec, const Unit& unit, const UnitWeights& weights, const Rows& rows,
                             const Tensor& dy, UnitSaved& saved, MemoryClass left, const Compute& c) {
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    return attention_unit_backward_input(*u, spec, std::get<AttentionWeights>(weights), rows, dy,
                                         std::get<AttentionSaved>(saved), left, c);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec))
    return mlp_backward_input(*u, std::get<MlpWeights>(weights), dy, std::get<MlpSaved>(saved), left, c);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec))
    return parallel_backward_input(*u, spec, std::get<ParallelWeights>(weights), rows, dy,
                                   std::get<ParallelSaved>(saved), left, c);
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec))
    return moe_backward_input(*u, std::get<MoeWeights>(weights), dy, std::get<MoeSaved>(saved), left, c);
  if (const auto* u = std::get_if<HeadSpec>(&unit.spec))
    return head_backward_input(*u, std::get<HeadWeights>(weights), std::get<HeadSaved>(saved), c);
  TERN_CHECK(false, "unit_backward_input: tokens have no gradient");
  return {};
}

Tensor unit_backward_input(const ModelSpec& spec, int index, const UnitWeights& weights, const Rows& rows,
                           const Tensor& dy, UnitSaved& saved, const Compute& c) {
  const Unit& unit = unit_to_run(spec, index, rows, c);
  if (is_trained(unit)) return backward_input(spec, unit, weights, rows, dy, saved, MemoryClass::activations, c);
  const Tensor dx = backward_input(spec, unit, weights, rows, dy, saved, MemoryClass::workspace, c);
  drop_unread(saved);
  return dx;
}

void unit_backward_weight(const ModelSpec& spec, int index, const UnitWeights& weights, const Rows& rows,
                          const Tensor& dy, UnitSaved& saved, UnitWeights& gradients, const Compute& c) {
  const Unit& unit = unit_to_run(spec, index, rows, c);
  if (!is_trained(unit)) return;
  if (const auto* u = std::get_if<EmbedSpec>(&unit.spec))
    return embed_backward_weight(*u, std::get<EmbedWeights>(weights), rows, dy, std::get<EmbedSaved>(saved),
                                 std::get<EmbedWeights>(gradients), c);
  if (const auto* u = std::get_if<ParallelSpec>(&unit.spec))
    return parallel_backward_weight(*u, std::get<ParallelWeights>(weights), dy, std::get<ParallelSaved>(saved),
                                    std::get<ParallelWeights>(gradients), c);
  if (const auto* u = std::get_if<AttentionSpec>(&unit.spec))
    return attention_unit_backward_weight(*u, std::get<AttentionWeights>(weights), dy, std::get<AttentionSaved>(saved),
                                          std::get<AttentionWeights>(gradients), c);
  if (const auto* u = std::get_if<MlpSpec>(&unit.spec))
    return mlp_backward_weight(*u, std::get<MlpWeights>(weights), dy, std::get<MlpSaved>(saved),
                               std::get<MlpWeights>(gradients), c);
  if (const auto* u = std::get_if<MoeSpec>(&unit.spec))
    return moe_backward_weight(*u, std::get<MoeWeights>(weights), dy, std::get<MoeSaved>(saved),
                               std::get<MoeWeights>(gradients), c);
  head_backward_weight(std::get<HeadSpec>(unit.spec), std::get<HeadSaved>(saved), std::get<HeadWeights>(gradients));
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
    a.dqkv_TC = a.dnormed_TD = a.dquery_norm = a.dkey_norm = a.dsinks = {};
    a.latent.dquery_TR = a.latent.dkv_TR = a.latent.dquery_norm = a.latent.dkv_norm = {};
  };
  const auto drop_mlp = [](MlpSaved& m) { m.dup_TG = m.hidden_TF = m.dnormed_TD = {}; };
  if (auto* a = std::get_if<AttentionSaved>(&saved)) drop_attention(*a);
  if (auto* m = std::get_if<MlpSaved>(&saved)) drop_mlp(*m);
  if (auto* m = std::get_if<MoeSaved>(&saved))
    m->dup_RG = m->dshared_up_TG = m->dshared_gate_T = m->dlogits_TE = m->dnormed_TD = {};
  if (auto* p = std::get_if<ParallelSaved>(&saved)) drop_attention(p->attention), drop_mlp(p->mlp);
}

Tensor model_forward(const ModelSpec& spec, WeightSource weights, const Rows& rows, KvView* kv, const Compute& c) {
  Tensor x;
  for (int unit = 0; unit + 1 < static_cast<int>(spec.units.size()); ++unit) {
    const WeightLease lease = weights.acquire(unit);
    x = unit_forward(spec, unit, *lease, rows, x, nullptr, kv, c);
  }
  return x;
}

}  // namespace tern
