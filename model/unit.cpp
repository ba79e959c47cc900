#include "model/unit.h"

#include "base/wide_type.h"
#include "model/context_ranks.h"
#include "model/ops.h"
#include "model/unit_impl.h"

namespace tern {

namespace {

// The unit that a pass is asked to run on these rows.
const Unit& unit_to_run(const ModelSpec& spec, int index, const Rows& rows, const Compute& c) {
  check_rows(rows, c.context ? c.context->comm.size() : 1);
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

Tensor model_forward(const ModelSpec& spec, WeightSource weights, const Rows& rows, KvView* kv, const Compute& c) {
  Tensor x;
  for (int unit = 0; unit + 1 < static_cast<int>(spec.units.size()); ++unit) {
    const WeightLease lease = weights.acquire(unit);
    x = unit_forward(spec, unit, *lease, rows, x, nullptr, kv, c);
  }
  return x;
}

}  // namespace tern
