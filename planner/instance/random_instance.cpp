#include "planner/instance/random_instance.h"

#include <algorithm>
#include <random>

namespace tern {
namespace {

class Maker {
 public:
  Maker(const RandomInstance& r, uint64_t seed) : r_(r), random_(seed) {}

  Instance make() {
    Instance in{.num_stages = r_.stages,
                .chunks_per_stage = r_.chunks,
                .num_micro = r_.micro,
                .schedule = r_.schedule,
                .cost = {},
                .within = {},
                .across = {},
                .capacity = {},
                .layer_class = {}};
    const bool tied = r_.equal_layers;
    for (int u = 0; u < r_.layers; ++u) {
      const bool end = r_.ends && (u == 0 || u + 1 == r_.layers);
      const int like = tied && !end ? (r_.ends ? 1 : 0) : u;
      in.cost.push_back(like < u ? in.cost[like] : layer());
      if (tied) in.layer_class.push_back(end ? (u == 0 ? 0 : 2) : 1);
    }
    for (int u = 0; u + 1 < r_.layers; ++u) {
      const auto same = [&](int v) {
        return tied && in.layer_class[v] == in.layer_class[u] && in.layer_class[v + 1] == in.layer_class[u + 1];
      };
      int like = 0;
      while (like < u && !same(like)) ++like;
      in.within.push_back(like < u ? in.within[like] : within());
      in.across.push_back(like < u ? in.across[like] : across());
    }
    capacities(in);
    if (r_.types > 1) unlike_devices(in);
    if (r_.link_classes > 1) unequal_links(in);
    return in;
  }

 private:
  int64_t below(int64_t n) { return n <= 0 ? 0 : static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  int64_t time(int64_t n) { return below(n) * r_.scale; }

  // Strategies trade time for memory, as sharding, recomputation and offloading do.
  std::vector<CostVector> layer() {
    std::vector<CostVector> row;
    const int64_t base = 60 + below(80), weight_bytes = 40 + below(60), held = 5 + below(20);
    for (int k = 0; k < r_.strategies; ++k) {
      const int64_t slow = below(60), spare = 100 - slow - below(30) + below(10);
      CostVector c;
      c.forward = base * r_.scale * (100 + slow) / 100 + time(5);
      c.backward = c.forward + time(base / 2);
      c.weight = c.forward / 2 + time(base / 2);
      c.recompute = below(3) == 0 ? c.forward : 0;
      c.persistent[0] = weight_bytes * spare / 50 + below(10);
      c.held[0] = (c.recompute > 0 ? 1 : held) * (50 + spare) / 50;
      if (r_.tails) {
        c.sync = below(2) == 0 ? time(base * 4) : 0;
        c.update = time(base);
      }
      if (r_.begins) c.begin = time(base * 2);
      if (r_.entries) c.entry_forward = time(base / 2), c.entry_backward = time(base / 2);
      if (r_.transients) c.transient = below(4) * 25;
      if (r_.host_link && below(2) == 0) c.host_forward = time(base * 3), c.host_backward = time(base * 5);
      if (r_.tiers && below(2) == 0) {
        c.persistent[1] = c.persistent[0] / 2, c.persistent[0] /= 2;
        c.held[1] = c.held[0] / 2, c.held[0] /= 2;
      }
      if (r_.split) c.held_weight = c.held[0] / 2 + below(4);
      row.push_back(c);
    }
    return row;
  }

  // One cost for each pair of layouts.
  std::vector<EdgeCost> edges(int64_t most, bool free_to_itself) {
    const int n = r_.strategies, layouts = r_.layouts > 0 ? std::min(r_.layouts, n) : n;
    std::vector<EdgeCost> of_layouts(static_cast<size_t>(layouts) * layouts), e(static_cast<size_t>(n) * n);
    for (int k = 0; k < layouts; ++k)
      for (int l = 0; l < layouts; ++l)
        if (!free_to_itself || k != l) of_layouts[k * layouts + l] = {time(most), time(most)};
    if (!r_.resharding) std::fill(of_layouts.begin(), of_layouts.end(), free_to_itself ? EdgeCost{} : of_layouts[0]);
    for (int k = 0; k < n; ++k)
      for (int l = 0; l < n; ++l) e[k * n + l] = of_layouts[k % layouts * layouts + l % layouts];
    return e;
  }
  std::vector<EdgeCost> within() { return edges(40, true); }
  std::vector<EdgeCost> across() { return edges(r_.link, false); }

  // Devices of type t: slower and larger, or quicker and smaller.
  void unlike_devices(Instance& in) {
    std::vector<int64_t> speed, room;  // percent
    for (int t = 0; t < r_.types; ++t) speed.push_back(60 + below(120)), room.push_back(60 + below(100));
    for (int d = 0; d < r_.stages; ++d) {
      in.stage_type.push_back(static_cast<int>(below(r_.types)));
      for (int64_t& bytes : in.capacity[d]) bytes = bytes * room[in.stage_type.back()] / 100;
    }
    in.strategy_type.resize(in.cost.size());
    for (auto& types : in.strategy_type)
      for (int k = 0; k < r_.strategies; ++k) types.push_back(k % r_.types);
    for (size_t u = 0; u < in.cost.size(); ++u)
      for (int k = 0; k < r_.strategies; ++k) {
        CostVector& c = in.cost[u][k];
        for (int64_t* x : {&c.forward, &c.backward, &c.weight, &c.recompute})
          *x = *x / r_.scale * speed[k % r_.types] / 100 * r_.scale;
      }
  }

  void unequal_links(Instance& in) {
    for (int s = 0; s + 1 < r_.stages * r_.chunks; ++s)
      in.link_class.push_back(static_cast<int>(below(r_.link_classes)));
    for (int n = 1; n < r_.link_classes; ++n) {
      const int64_t factor = below(8);
      in.other_across.push_back(in.across);
      for (auto& row : in.other_across.back())
        for (EdgeCost& e : row) e = {e.forward * factor, e.backward * factor};
    }
  }

  void capacities(Instance& in) {
    const double share = 1.0 / r_.stages;
    for (int d = 0; d < r_.stages; ++d) {
      TierBytes c{};
      for (int t = 0; t < kTiers; ++t) {
        double least = 0, most = 0;
        for (const auto& row : in.cost) {
          int64_t low = INT64_MAX, high = 0;
          for (const CostVector& x : row) {
            const int64_t bytes = x.persistent[t] + x.held[t] * std::min(r_.micro, r_.stages - d);
            low = std::min(low, bytes), high = std::max(high, bytes);
          }
          least += static_cast<double>(low), most += static_cast<double>(high);
        }
        c[t] = static_cast<int64_t>((least + (most - least) * r_.memory) * share *
                                    (1.1 + 0.01 * static_cast<double>(below(20))));
        if (t == 0 && r_.transients) c[t] += 30;
      }
      in.capacity.push_back(c);
    }
  }

  const RandomInstance& r_;
  std::mt19937_64 random_;
};

}  // namespace

Instance random_instance(const RandomInstance& r, uint64_t seed) { return Maker(r, seed).make(); }

}  // namespace tern
