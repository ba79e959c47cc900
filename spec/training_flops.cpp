#include "spec/training_flops.h"

#include "spec/attended_pairs.h"
#include "spec/unit_cost.h"

namespace tern {

double training_flops_per_token(const ModelSpec& spec, int64_t seq) {
  if (seq <= 0) return 0;
  const auto pairs = [&](const AttentionSpec& a) { return static_cast<double>(attended_pairs(a, seq)); };
  return training_flops_per_token(spec, pairs, static_cast<double>(seq));
}

double training_flops_per_token(const ModelSpec& spec, const std::function<double(const AttentionSpec&)>& pairs,
                                double tokens) {
  double flops = 0;
  for (const Unit& unit : spec.units) {
    const UnitCost c = unit_cost(unit, {});
    double parameters = static_cast<double>(c.parameters), trained = static_cast<double>(c.trained);
    if (std::holds_alternative<EmbedSpec>(unit.spec)) continue;
    if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) {  // a token meets top_k of the experts
      const double rest = 1 - static_cast<double>(e->top_k) / static_cast<double>(e->experts);
      parameters -= static_cast<double>(c.expert_parameters) * rest;
      trained -= static_cast<double>(c.expert_trained) * rest;
    }
    flops += 4 * parameters + 2 * trained;
    if (const AttentionSpec* a = attention_of(unit))
      flops += 6.0 * static_cast<double>(a->heads * a->head_dim + a->value_rows()) * pairs(*a) / tokens;
    if (const auto* h = std::get_if<HeadSpec>(&unit.spec); h && h->tied)
      flops += (unit.frozen ? 4.0 : 6.0) * static_cast<double>(h->width) * static_cast<double>(h->vocab);
  }
  return flops;
}

double training_flops(const ModelSpec& spec, int64_t seq, double tokens, double targets) {
  const HeadSpec& head = spec.head();
  const double of_head =
      (spec.units.back().frozen ? 4.0 : 6.0) * static_cast<double>(head.width) * static_cast<double>(head.vocab);
  return tokens * training_flops_per_token(spec, seq) - (tokens - targets) * of_head;
}

}  // namespace tern
