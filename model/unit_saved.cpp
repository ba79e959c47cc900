#include "model/unit_saved.h"

namespace tern {

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
    m->dup_RG = m->dshared_up_TG = m->dshared_gate_T = m->dlogits_TE = m->dnormed_TD = m->drows_RD = {};
  if (auto* p = std::get_if<ParallelSaved>(&saved)) drop_attention(p->attention), drop_mlp(p->mlp);
}

}  // namespace tern
