#include <algorithm>
#include <map>

#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/kept_strategies_impl.h"
#include "planner/instance/relaxation_impl.h"

namespace tern {
namespace {

std::vector<std::vector<EdgeCost>> edges_of(const std::vector<std::vector<EdgeCost>>& edges, const Instance& in,
                                            const std::vector<std::vector<int>>& kept) {
  std::vector<std::vector<EdgeCost>> out;
  for (size_t u = 0; u < edges.size(); ++u) {
    out.emplace_back();
    for (const int k : kept[u])
      for (const int l : kept[u + 1])
        out.back().push_back(edges[u][static_cast<size_t>(k) * in.cost[u + 1].size() + static_cast<size_t>(l)]);
  }
  return out;
}

}  // namespace

Assignment Kept::whole(const Assignment& a) const {
  Assignment out = a;
  for (size_t u = 0; u < strategy.size(); ++u) out.strategy[u] = strategy[u][static_cast<size_t>(a.strategy[u])];
  return out;
}

Kept strategies_below(const Instance& in, int64_t upper_bound, int rounds) {
  const Chain chain = make_chain(in, Objective::simulated);
  const CutBound cut = cut_bound(chain, upper_bound, rounds);
  Kept kept{.bound = cut.bound, .instance = {}, .strategy = {}};
  if (kept.bound >= upper_bound) return kept;
  Relaxation relaxation(chain);
  relaxation.set_dear(cut.dear);
  relaxation.least(cut.weights, cut.mu);
  const auto with = relaxation.with_each_strategy();
  // Sums of doubles that carry integers: a strategy goes only if it is above by more than they can be wrong by.
  const double limit = static_cast<double>(upper_bound) * (1 + 1e-11) + 1;
  std::map<int, std::vector<char>> wanted;  // by class
  const auto class_of = [&](size_t u) { return in.layer_class.empty() ? static_cast<int>(u) : in.layer_class[u]; };
  for (size_t u = 0; u < in.cost.size(); ++u) {
    auto& row = wanted.try_emplace(class_of(u), in.cost[u].size(), 0).first->second;
    const auto& least = with[static_cast<size_t>(chain.form[u])];
    for (size_t k = 0; k < row.size(); ++k) row[k] |= least[k] < limit;
  }
  for (size_t u = 0; u < in.cost.size(); ++u) {
    kept.strategy.emplace_back();
    for (size_t k = 0; k < in.cost[u].size(); ++k)
      if (wanted[class_of(u)][k]) kept.strategy.back().push_back(static_cast<int>(k));
    if (!kept.strategy.back().empty()) continue;
    kept.bound = upper_bound;
    return kept;
  }
  kept.fill(in);
  return kept;
}

void Kept::fill(const Instance& in) {
  Kept& kept = *this;
  kept.instance = in;
  for (size_t u = 0; u < in.cost.size(); ++u) {
    kept.instance.cost[u].clear();
    for (const int k : kept.strategy[u]) kept.instance.cost[u].push_back(in.cost[u][static_cast<size_t>(k)]);
  }
  kept.instance.within = edges_of(in.within, in, kept.strategy);
  kept.instance.across = edges_of(in.across, in, kept.strategy);
  for (size_t n = 0; n < in.other_across.size(); ++n)
    kept.instance.other_across[n] = edges_of(in.other_across[n], in, kept.strategy);
  for (size_t u = 0; u < in.strategy_type.size(); ++u) {
    kept.instance.strategy_type[u].clear();
    for (const int k : kept.strategy[u])
      kept.instance.strategy_type[u].push_back(in.strategy_type[u][static_cast<size_t>(k)]);
  }
}

}  // namespace tern
