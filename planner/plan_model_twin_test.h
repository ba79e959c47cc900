#pragma once
// Small models and machines, and the judge of plan_model: assignments priced one by one.

#include <functional>
#include <limits>

#include "plan/cost_model.h"
#include "planner/price.h"
#include "spec/presets.h"

namespace tern {

constexpr int64_t kGB = 1'000'000'000;

inline ModelSpec small_model(int64_t layers, const char* preset = "llama-2-7b") {
  ModelSpec m = *preset_model(preset);
  ModelSpec s = m;
  s.units.assign(m.units.begin(), m.units.begin() + 1 + 2 * layers);
  s.units.push_back(m.units.back());
  s.layers = layers;
  return s;
}

inline Cluster small_cluster(int64_t devices, int64_t memory_bytes) {
  Cluster c = read_cluster(TERN_SOURCE_DIR "/examples/hardware/h100-node.toml");
  c.nodes[0].num_devices = c.nodes[0].link.devices = devices;
  c.devices[0].memory_bytes = memory_bytes + c.devices[0].reserved_bytes;
  return c;
}

// Twin: plain loops over every choice, every cut and every strategy, priced one by one. Shares the cost model and the
// simulator, nothing else.
struct Best {
  int64_t makespan = std::numeric_limits<int64_t>::max();
  OuterChoice choice;
  int64_t priced = 0;
};

inline void try_assignments(const Instance& in, const OuterChoice& choice, Best& best) {
  const int L = in.num_layers(), V = in.num_stages * in.chunks_per_stage;
  Pricer pricer(in);
  Assignment a{std::vector<int>(static_cast<size_t>(L)), std::vector<int>(static_cast<size_t>(L))};
  const std::function<void(int)> choose = [&](int u) {
    if (u == L) {
      if (a.stage.back() != V - 1) return;
      const Priced p = pricer(a);
      ++best.priced;
      if (p.fits() && p.makespan < best.makespan) best.makespan = p.makespan, best.choice = choice;
      return;
    }
    const size_t at = static_cast<size_t>(u);
    for (int s = u ? a.stage[at - 1] : 0; s <= (u ? std::min(V - 1, a.stage[at - 1] + 1) : 0); ++s)
      for (int k = 0; k < static_cast<int>(in.cost[at].size()); ++k) {
        a.stage[at] = s, a.strategy[at] = k;
        choose(u + 1);
      }
  };
  choose(0);
}

}  // namespace tern
