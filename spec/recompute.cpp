#include "spec/recompute.h"

namespace tern {

std::string_view name_of(Recompute r) {
  return r == Recompute::full ? "full" : r == Recompute::attention ? "attention" : "none";
}

bool is_recomputed(const Unit& unit, Recompute recompute) {
  const bool attention = attention_of(unit) != nullptr;
  const bool mlp = mlp_of(unit) || std::holds_alternative<MoeSpec>(unit.spec);
  return (attention && recompute != Recompute::none) || (mlp && recompute == Recompute::full);
}

std::string_view name_of(PartRecompute r) {
  constexpr std::array<std::string_view, kPartRecomputes.size()> names{"none", "scores", "operations", "second blocks"};
  return names[static_cast<size_t>(r)];
}

double second_products_share(const Unit& unit) {
  double again = 0, all = 0;
  if (const AttentionSpec* a = attention_of(unit)) {
    const auto queries = static_cast<double>(a->heads * a->head_dim),
               keys = static_cast<double>(a->kv_heads * a->head_dim);
    again += keys + queries, all += 2 * keys + 2 * queries;  // keys and the output, of q, k, v, out
  }
  if (const MlpSpec* m = mlp_of(unit)) {
    const auto hidden = static_cast<double>(m->hidden);
    again += hidden, all += (m->gated ? 3 : 2) * hidden;
  }
  return all > 0 ? again / all : 0;
}

}  // namespace tern
