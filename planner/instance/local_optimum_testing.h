#pragma once
// The judge of local improvement: plain loops over every move of a single layer.

#include <fmt/format.h>

#include <string>

#include "planner/instance/price.h"

namespace tern {

/// "" where no assignment that differs in one layer's stage and strategy alone fits and is faster; else one that is.
inline std::string faster_single_move(const Instance& in, const Assignment& a) {
  Pricer pricer(in);
  const int64_t now = pricer(a).makespan;
  const int stages = in.num_stages * in.chunks_per_stage;
  for (size_t u = 0; u < a.stage.size(); ++u)
    for (int s = 0; s < stages; ++s)
      for (int k = 0; k < static_cast<int>(in.cost[u].size()); ++k) {
        Assignment b = a;
        b.stage[u] = s, b.strategy[u] = k;
        bool legal = b.stage.front() == 0 && b.stage.back() == stages - 1;
        for (size_t v = 1; v < b.stage.size(); ++v)
          legal &= b.stage[v] == b.stage[v - 1] || b.stage[v] == b.stage[v - 1] + 1;
        if (!legal) continue;
        const Priced p = pricer(b);
        if (p.fits() && p.makespan < now)
          return fmt::format("layer {} in stage {} with strategy {}: {} ps, below {}", u, s, k, p.makespan, now);
      }
  return "";
}

}  // namespace tern
