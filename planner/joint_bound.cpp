#include <algorithm>
#include <cmath>

#include "planner/windows_impl.h"

namespace tern {
namespace {

// Least of Σ (share of the mean + mu·bytes) over all ways to lay layers into stages: a walk over (layer, stage). Layers
// are priced one by one; resharding and transfers, which are not negative, are left out.
double priced_sum(const Chain& chain, double mu) {
  std::vector<double> now(chain.stages, 1e300);
  for (int u = 0; u < chain.layers; ++u) {
    for (int s = chain.stages - 1; s >= 0; --s) {
      const StageRule& rule = chain.rule[s];
      const double from = u == 0 ? (s == 0 ? 0 : 1e300) : std::min(now[s], s > 0 ? now[s - 1] : 1e300);
      double least = 1e300;
      for (const UnitState& state : chain.states[u])
        for (const UnitCost& c : state.options) {
          const StageCost x{.p = c.forward + c.backward + c.weight, .f = c.forward, .b = c.backward};
          const int64_t bytes = c.persistent[0] + rule.joint_held * c.held[0] + rule.joint_held_weight * c.held_weight;
          least = std::min(least, static_cast<double>(mean_share(chain, s, x, {})) + mu * static_cast<double>(bytes));
        }
      now[s] = from + least;
    }
  }
  double capacity = 0;
  for (const auto& c : chain.in->capacity) capacity += static_cast<double>(c[0]);
  return now.back() - mu * capacity;
}

}  // namespace

int64_t joint_memory_bound(const Chain& chain) {
  const double plain = priced_sum(chain, 0);
  double bytes = 0;
  for (const auto& c : chain.in->capacity) bytes += static_cast<double>(c[0]);
  if (bytes <= 0) return 0;
  // Concave in mu: a search on its exponent.
  double low = std::log2(plain / bytes) - 14, high = low + 22, best = plain;
  for (int step = 0; step < 16; ++step) {
    const double a = low + (high - low) / 3, b = high - (high - low) / 3;
    const double at_a = priced_sum(chain, std::exp2(a)), at_b = priced_sum(chain, std::exp2(b));
    best = std::max({best, at_a, at_b});
    (at_a < at_b ? low : high) = at_a < at_b ? a : b;
  }
  return std::max<int64_t>(0, static_cast<int64_t>(best * (1 - 1e-11)) / chain.devices - 1);
}

}  // namespace tern
