#include "plan/layers.h"

#include <algorithm>

namespace tern {

std::vector<Layer> layers_of(const ModelSpec& spec) {
  std::vector<Layer> layers;
  for (int u = 0; u < static_cast<int>(spec.units.size()); ++u) {
    const int layer = spec.units[static_cast<size_t>(u)].layer;
    const bool goes_on = u > 0 && layer >= 0 && layer == spec.units[static_cast<size_t>(u) - 1].layer;
    if (goes_on)
      ++layers.back().count;
    else
      layers.push_back({u, 1, 0});
  }
  const auto same_units = [&](const Layer& a, const Layer& b) {
    if (a.count != b.count) return false;
    for (int i = 0; i < a.count; ++i) {
      Unit x = spec.units[static_cast<size_t>(a.first + i)], y = spec.units[static_cast<size_t>(b.first + i)];
      x.layer = y.layer = 0;
      if (!(x == y)) return false;
    }
    return true;
  };
  std::vector<Layer> kinds;
  for (Layer& l : layers) {
    const auto known = std::find_if(kinds.begin(), kinds.end(), [&](const Layer& k) { return same_units(k, l); });
    l.kind = static_cast<int>(known - kinds.begin());
    if (known == kinds.end()) kinds.push_back(l);
  }
  return layers;
}

}  // namespace tern
