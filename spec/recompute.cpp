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

}  // namespace tern
