#include "exec/early_updates.h"

#include "update/norm.h"
#include "update/update_unit.h"

namespace tern {

void EarlyUpdates::update(const Instruction& i, bool has_loss) {
  if (!pass) pass.emplace(*in.update), squares.resize(in.update->gradients.size());
  if (!has_loss) return;
  const std::vector<size_t> unit = parts.parameters_of(i.unit);
  for (const auto& [buffer, tensors] : summands.alive) {
    const std::vector<size_t> places = parts.parameters_of(Summands::scatter_of(buffer));
    for (size_t k = 0; k < places.size(); ++k)
      if (in.update->state.infos[places[k]].unit == i.unit) pass->gradients[places[k]] = tensors[k];
  }
  for (const size_t p : unit) {
    squares[p] = gradient_squares(*pass, p);
    require_finite_square(*pass, p, squares[p]);
  }
  update_unit(*pass, {}, i.unit, in.compute.arena);
  for (const size_t p : unit) pass->gradients[p] = {};
}

}  // namespace tern
