#include "program/micro_batch_costs.h"

#include <utility>

namespace tern {

MicroBatchCosts::MicroBatchCosts(const ModelSpec& spec, const Placement& at) {
  const auto units = static_cast<int>(spec.units.size());
  std::vector<std::pair<int64_t, int64_t>> before, now;  // tokens and pairs of each unit
  for (int m = 0; m < at.shape.num_micro; ++m) {
    now.clear();
    for (int u = 0; u < units; ++u) {
      const CostQuery q = at.query(u, m);
      now.emplace_back(q.tokens, q.attended_pairs);
    }
    if (now != before) {
      std::vector<UnitCost>& all = costs.emplace_back();
      std::vector<SwappedBytes>& swapped = swaps.emplace_back(static_cast<size_t>(units));
      std::vector<RingBytes>& passed = rings.emplace_back(static_cast<size_t>(units));
      std::vector<RoutedBytes>& of_experts = routed.emplace_back();
      const bool in_context = at.mesh.context > 1;
      for (int u = 0; u < units; ++u) {
        const Unit& unit = spec.units[static_cast<size_t>(u)];
        const CostQuery q = at.query(u, m);
        all.push_back(unit_cost_in_mesh(unit, q, at.mesh));
        of_experts.push_back(routed_bytes(unit, q));
        if (in_context && at.mesh.ulysses) swapped[static_cast<size_t>(u)] = swapped_bytes(unit, q);
        if (in_context && !at.mesh.ulysses) passed[static_cast<size_t>(u)] = ring_bytes(unit, q, at.mesh.context);
      }
      before = now;
    }
    size_of.push_back(costs.size() - 1);
  }
}

}  // namespace tern
