#include "planner/baselines/baselines.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "planner/instance/price.h"

namespace tern {
namespace {

void offer(Baseline& best, Pricer& price, const Assignment& a) {
  ++best.tried;
  const Priced p = price(a);
  if (!p.fits() || (best.found && p.makespan >= best.makespan_ps)) return;
  best.found = true;
  best.assignment = a;
  best.makespan_ps = p.makespan;
}

std::vector<int> stages_of(std::span<const int> layers) {
  std::vector<int> stage;
  for (size_t s = 0; s < layers.size(); ++s) stage.insert(stage.end(), layers[s], static_cast<int>(s));
  return stage;
}

// More than any assignment takes, and small enough that sums of it stay integers.
int64_t prohibitive(const Instance& in) {
  int64_t sum = 1;
  for (const auto& row : in.cost) {
    int64_t most = 0;
    for (const CostVector& c : row)
      most = std::max(most, c.forward + c.backward + c.weight + c.recompute + c.host_forward + c.host_backward +
                                c.entry_forward + c.entry_backward + c.begin + c.sync + c.update);
    sum += most;
  }
  const auto add = [&](const std::vector<std::vector<EdgeCost>>& edges) {
    for (const auto& row : edges) {
      int64_t most = 0;
      for (const EdgeCost& e : row) most = std::max(most, e.forward + e.backward);
      sum += most;
    }
  };
  add(in.within);
  add(in.across);
  for (const auto& other : in.other_across) add(other);
  return sum * 4 * (in.num_micro + in.num_stages);
}

}  // namespace

std::vector<int> even_layer_counts(const Instance& in) {
  const int stages = in.num_stages * in.chunks_per_stage, layers = in.num_layers();
  std::vector<int> result(stages, layers / stages);
  for (int s = 0; s < layers % stages; ++s) ++result[s];
  return result;
}

Baseline uniform_even(const Instance& in) {
  Pricer price(in);
  Baseline best;
  size_t strategies = in.cost[0].size();
  for (const auto& row : in.cost)
    if (row.size() != strategies)
      throw Error(ErrorKind::usage,
                  "uniform_even: layers of {} and {} strategies; one strategy everywhere needs equal numbers",
                  strategies, row.size());
  const std::vector<int> stage = stages_of(even_layer_counts(in));
  for (size_t k = 0; k < strategies; ++k)
    offer(best, price, {stage, std::vector<int>(stage.size(), static_cast<int>(k))});
  return best;
}

Baseline uniap(const Instance& in, const SearchOptions& options) {
  SearchOptions simple = options;
  simple.objective = Objective::simple;
  const SearchResult r = search(in, simple);
  Baseline b{.found = r.found, .assignment = r.assignment, .makespan_ps = r.makespan_ps, .tried = r.counts.simulated};
  return b;
}

Baseline random_valid(const Instance& in, int64_t samples, uint64_t seed) {
  Pricer price(in);
  Baseline best;
  std::mt19937_64 random(seed);
  const int layers = in.num_layers(), stages = in.num_stages * in.chunks_per_stage;
  for (int64_t i = 0; i < samples; ++i) {
    // stages − 1 boundaries among layers − 1 places: one draw after another, each set equally likely.
    Assignment a{{0}, {}};
    int left = stages - 1;
    for (int u = 1; u < layers; ++u) {
      const bool boundary = left > 0 && static_cast<int>(random() % static_cast<uint64_t>(layers - u)) < left;
      a.stage.push_back(a.stage.back() + boundary);
      left -= boundary;
    }
    for (const auto& row : in.cost) a.strategy.push_back(static_cast<int>(random() % row.size()));
    offer(best, price, a);
  }
  return best;
}

Baseline exhaustive(const Instance& in, int64_t most) {
  const int layers = in.num_layers(), stages = in.num_stages * in.chunks_per_stage;
  double count = 1;
  for (const auto& row : in.cost) count *= static_cast<double>(row.size());
  for (int s = 1; s < stages; ++s) count = count * (layers - s) / s;
  if (count > static_cast<double>(most))
    throw Error(ErrorKind::usage,
                "exhaustive: {:.3g} assignments, the limit is {}; search() is exact without pricing them all", count,
                most);
  Pricer price(in);
  Baseline best;
  Assignment a{std::vector<int>(layers, 0), std::vector<int>(layers, 0)};
  // Layer by layer; the stage of a layer is that of the one before it, or the next.
  const auto place = [&](const auto& self, int u) -> void {
    if (u == layers) {
      if (a.stage.back() == stages - 1) offer(best, price, a);
      return;
    }
    for (int step = 0; step <= (u == 0 ? 0 : 1); ++step) {
      a.stage[u] = u == 0 ? 0 : a.stage[u - 1] + step;
      if (a.stage[u] >= stages || layers - 1 - u < stages - 1 - a.stage[u]) continue;
      for (size_t k = 0; k < in.cost[u].size(); ++k) {
        a.strategy[u] = static_cast<int>(k);
        self(self, u + 1);
      }
    }
  };
  place(place, 0);
  return best;
}

Instance keep_strategies(const Instance& in, std::span<const int> kept) {
  Instance out = in;
  for (size_t u = 0; u < in.cost.size(); ++u) {
    out.cost[u].clear();
    for (const int k : kept) {
      if (k < 0 || k >= static_cast<int>(in.cost[u].size()))
        throw Error(ErrorKind::usage, "keep_strategies: {} of layer {}, which has {}", k, u, in.cost[u].size());
      out.cost[u].push_back(in.cost[u][k]);
    }
    if (!in.strategy_type.empty()) {
      out.strategy_type[u].clear();
      for (const int k : kept) out.strategy_type[u].push_back(in.strategy_type[u][k]);
    }
    if (u + 1 == in.cost.size()) continue;
    for (auto& other : out.other_across) other[u].clear();
    const size_t next = in.cost[u + 1].size();
    out.within[u].clear();
    out.across[u].clear();
    for (const int k : kept)
      for (const int l : kept) {
        out.within[u].push_back(in.within[u][k * next + l]);
        out.across[u].push_back(in.across[u][k * next + l]);
        for (size_t n = 0; n < in.other_across.size(); ++n)
          out.other_across[n][u].push_back(in.other_across[n][u][k * next + l]);
      }
  }
  return out;
}

Instance fix_stages(const Instance& in, std::span<const int> layers_of_stage) {
  const int stages = in.num_stages * in.chunks_per_stage;
  const int covered = std::accumulate(layers_of_stage.begin(), layers_of_stage.end(), 0);
  if (static_cast<int>(layers_of_stage.size()) != stages || covered != in.num_layers() ||
      *std::min_element(layers_of_stage.begin(), layers_of_stage.end()) < 1)
    throw Error(ErrorKind::usage, "fix_stages: {} stages of {} layers together, expected {} stages of {}",
                layers_of_stage.size(), covered, stages, in.num_layers());
  Instance out = in;
  const int64_t dear = prohibitive(in);
  const std::vector<int> stage = stages_of(layers_of_stage);
  for (size_t u = 0; u + 1 < stage.size(); ++u) {
    const bool inside = stage[u] == stage[u + 1];
    for (EdgeCost& e : inside ? out.across[u] : out.within[u]) e = {dear, dear};
    if (!inside) continue;
    for (auto& other : out.other_across)
      for (EdgeCost& e : other[u]) e = {dear, dear};
  }
  // The places of the boundaries tell layers apart now.
  out.layer_class.clear();
  return out;
}

}  // namespace tern
