// Pipelines over several types of nodes: every stage on devices of one type, one mesh for all stages.
#include <algorithm>
#include <numeric>
#include <set>

#include "plan/comm_cost.h"
#include "plan/legality.h"
#include "planner/instance/price.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

constexpr int kSteps = 30;  // of the search for a stage's time

// Between nodes of two types: the level of the network that holds all nodes, the slower of the two nodes' cards.
int64_t between_ps(const Cluster& cluster, const Machine& a, const Machine& b, int64_t bytes) {
  int64_t nodes = 0;
  for (const NodeGroup& g : cluster.groups) nodes += g.count;
  const auto all =
      std::find_if(cluster.network.begin(), cluster.network.end(), [&](const auto& l) { return l.nodes >= nodes; });
  const NetworkLevel& level = all == cluster.network.end() ? cluster.network.back() : *all;
  const auto share = [&](const Machine& m) {
    return m.node.network / level.oversubscription / static_cast<double>(m.node.num_devices);
  };
  return level.latency_ps + ps_of(static_cast<double>(bytes), std::min(share(a), share(b)));
}

EdgeCost least_of(const std::vector<EdgeCost>& edges) {
  EdgeCost least{INT64_MAX, INT64_MAX};
  for (const EdgeCost& e : edges) least = {std::min(least.forward, e.forward), std::min(least.backward, e.backward)};
  return least;
}

// Sequences that use two machines at least, counted as far as `most`.
size_t count_orders(int stages, std::vector<int64_t> room, size_t most) {
  std::vector<double> ways(static_cast<size_t>(stages) + 1, 0);  // as exponential generating functions do
  ways[0] = 1;
  double alone = 0;
  for (const int64_t n : room) {
    alone += n >= stages ? 1 : 0;
    std::vector<double> next(ways.size(), 0);
    for (int before = 0; before <= stages; ++before) {
      double choose = 1;
      for (int k = 0; before + k <= stages && k <= n; ++k) {
        next[static_cast<size_t>(before + k)] += ways[static_cast<size_t>(before)] * choose;
        choose = choose * (before + k + 1) / (k + 1);
      }
    }
    ways = next;
  }
  const double count = ways.back() - alone;
  return count > static_cast<double>(most) ? most + 1 : static_cast<size_t>(std::max(0.0, count + 0.5));
}

using Orders = std::set<std::vector<int>>;

void all_orders(std::vector<int>& order, size_t stages, std::vector<int64_t>& room, Orders& out) {
  if (order.size() == stages) {
    if (std::any_of(order.begin(), order.end(), [&](int m) { return m != order.front(); })) out.insert(order);
    return;
  }
  for (size_t m = 0; m < room.size(); ++m) {
    if (room[m] == 0) continue;
    --room[m], order.push_back(static_cast<int>(m));
    all_orders(order, stages, room, out);
    ++room[m], order.pop_back();
  }
}

// Stages of one machine together; the machines named first take as many stages as they can, but one.
void block_orders(int stages, const std::vector<int64_t>& room, Orders& out) {
  std::vector<int> machines;
  for (size_t m = 0; m < room.size(); ++m)
    if (room[m] > 0) machines.push_back(static_cast<int>(m));
  std::vector<int> first = machines;
  do {
    std::vector<int64_t> taken(room.size(), 0);
    int64_t left = stages;
    for (const int m : first) {
      const size_t at = static_cast<size_t>(m);
      left -= taken[at] = std::min(room[at], m == first.front() ? left - 1 : left);
    }
    if (left > 0) return;
    std::vector<int> sequence = machines;
    do {
      std::vector<int> order;
      for (const int m : sequence) order.insert(order.end(), static_cast<size_t>(taken[static_cast<size_t>(m)]), m);
      out.insert(order);
      std::reverse(order.begin(), order.end());
      out.insert(order);
    } while (machines.size() <= 3 && std::next_permutation(sequence.begin(), sequence.end()));
  } while (std::next_permutation(first.begin(), first.end()));
}

}  // namespace

std::pair<std::vector<std::vector<int>>, bool> orders_of(int stages, const std::vector<int64_t>& room, size_t most) {
  Orders out;
  const bool all = count_orders(stages, room, most) <= most;
  std::vector<int64_t> left = room;
  std::vector<int> order;
  if (all)
    all_orders(order, static_cast<size_t>(stages), left, out);
  else
    block_orders(stages, room, out);
  return {{out.begin(), out.end()}, all};
}

ChoiceTables join_tables(const Cluster& cluster, const std::vector<Machine>& machines,
                         const std::vector<const ChoiceTables*>& of) {
  const auto some = std::find_if(of.begin(), of.end(), [](const ChoiceTables* t) { return t != nullptr; });
  ChoiceTables t{.group = kMixed, .mesh = (*some)->mesh, .micro_batch = (*some)->micro_batch};
  const size_t M = machines.size();
  for (const ChoiceTables* own : of)  // whichever runs a layer
    for (size_t form = 0; own && form < kForms.size(); ++form)
      t.longest[form].micro += own->longest[form].micro, t.longest[form].once += own->longest[form].once;
  for (size_t kind = 0; kind < (*some)->kinds.size(); ++kind) {
    auto& rows = t.kinds.emplace_back();
    std::vector<EdgeCost> between(M * M), inside(M), met;
    for (size_t a = 0; a < M; ++a) {
      if (!of[a]) continue;
      const ChoiceTables::Rows& own = of[a]->kinds[kind];
      for (const Form form : kForms) {
        rows.cost[form].insert(rows.cost[form].end(), own.cost[form].begin(), own.cost[form].end());
        rows.strategy[form].insert(rows.strategy[form].end(), own.strategy[form].begin(), own.strategy[form].end());
        rows.machine[form].resize(rows.cost[form].size(), static_cast<int>(a));
      }
      inside[a] = of[a]->edge[1][kind];
      for (size_t b = 0; b < M; ++b) {
        if (!of[b]) continue;
        const int64_t ps = between_ps(cluster, machines[a], machines[b], of[a]->boundary_bytes[kind]);
        between[a * M + b] = a == b ? of[a]->edge[0][kind] : EdgeCost{ps, ps};
        met.push_back(between[a * M + b]);
      }
    }
    t.edge[0].push_back(least_of(met));
    for (size_t a = 0; a < M; ++a)
      if (of[a]) met.push_back(inside[a]);
    t.edge[1].push_back(least_of(met));
    t.between.push_back(std::move(between));
    t.inside.push_back(std::move(inside));
  }
  return t;
}

bool any_order(const SpaceOfChoices& space, const Candidate& c) {
  return c.order >= 0 && space.orders[static_cast<size_t>(c.order)].front() == kAnyType;
}

const Machine& machine_of_stage(const SpaceOfChoices& space, const Candidate& c, int stage) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int m = t.group == kMixed ? space.orders[static_cast<size_t>(c.order)][static_cast<size_t>(stage)] : t.group;
  return space.machines[static_cast<size_t>(m)];
}

TierBytes most_capacity(const SpaceOfChoices& space, const ChoiceTables& t) {
  TierBytes most{};
  for (size_t m = 0; m < space.machines.size(); ++m) {
    if (t.group != kMixed && t.group != static_cast<int>(m)) continue;
    const TierBytes own = capacity_of(space.machines[m]);
    for (size_t tier = 0; tier < kTiers; ++tier) most[tier] = std::max(most[tier], own[tier]);
  }
  return most;
}

std::vector<bool> in_one_node(const SpaceOfChoices& space, const Candidate& c) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const auto stages_of_node = [&](const Machine& m) {
    const int64_t group = t.mesh.tensor * t.mesh.context;
    return group > m.node.num_devices ? 0 : m.node.num_devices / group * group / t.mesh.devices();
  };
  const PipelineShape shape{.schedule = static_cast<PipelineSchedule>(c.schedule),
                            .num_devices = c.num_stages,
                            .chunks_per_device = c.chunks,
                            .num_micro = static_cast<int>(c.num_micro)};
  if (any_order(space, c)) {
    const bool some = std::any_of(space.machines.begin(), space.machines.end(),
                                  [&](const Machine& m) { return stages_of_node(m) >= 2; });
    return std::vector<bool>(static_cast<size_t>(shape.num_virtual_stages() - 1), some);
  }
  std::vector<std::pair<int, int64_t>> node;  // of each device's stage: its machine, and which of its nodes
  std::vector<int64_t> placed(space.machines.size(), 0);
  for (int d = 0; d < c.num_stages; ++d) {
    const int m = t.group == kMixed ? space.orders[static_cast<size_t>(c.order)][static_cast<size_t>(d)] : t.group;
    const int64_t fit = stages_of_node(space.machines[static_cast<size_t>(m)]), at = placed[static_cast<size_t>(m)]++;
    node.emplace_back(m, fit >= 1 ? at / fit : -1 - at);
  }
  std::vector<bool> near;
  for (int s = 0; s + 1 < shape.num_virtual_stages(); ++s)
    near.push_back(node[static_cast<size_t>(device_of(shape, s))] ==
                   node[static_cast<size_t>(device_of(shape, s + 1))]);
  return near;
}

// By kind and machine that strategy, or where it is dominated one that is as sharded.
static std::vector<std::vector<int>> rows_near(const ChoiceTables& t, int form, const LayerStrategy& s,
                                               size_t machines) {
  std::vector<std::vector<int>> row(t.kinds.size(), std::vector<int>(machines, -1));
  for (size_t kind = 0; kind < t.kinds.size(); ++kind)
    for (size_t k = 0; k < t.kinds[kind].strategy[form].size(); ++k) {
      const LayerStrategy& own = t.kinds[kind].strategy[form][k];
      int& at = row[kind][static_cast<size_t>(t.kinds[kind].machine[form][k])];
      if (at < 0 || own == s ||
          (own.zero == s.zero && own.states == s.states && t.kinds[kind].strategy[form][static_cast<size_t>(at)] != s))
        at = static_cast<int>(k);
    }
  return row;
}

UniformPlan mixed_plan(const SpaceOfChoices& space, const Candidate& c, const BuiltInstance& built) {
  UniformPlan best;
  if (any_order(space, c)) return best;
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c), L = static_cast<int>(space.layers.size()), V = c.num_stages * c.chunks;
  const std::vector<int>& order = space.orders[static_cast<size_t>(c.order)];
  const PipelineShape shape = shape_of(built.instance);
  const auto widest = std::max_element(t.kinds.begin(), t.kinds.end(),
                                       [](const auto& a, const auto& b) { return a.layers < b.layers; });
  Pricer pricer(built.instance);
  std::vector<LayerStrategy> tried;
  for (const LayerStrategy& s : widest->strategy[form]) {
    if (space.late()) break;
    if (std::find(tried.begin(), tried.end(), s) != tried.end()) continue;
    tried.push_back(s);
    const std::vector<std::vector<int>> row = rows_near(t, form, s, space.machines.size());
    Assignment a;
    // Layers in order, each stage as many as it can do in `limit` and hold.
    const auto place = [&](double limit) {
      a.stage.clear(), a.strategy.clear();
      for (int v = 0, u = 0; v < V; ++v) {
        const int device = device_of(shape, v);
        const size_t machine = static_cast<size_t>(order[static_cast<size_t>(device)]);
        const double room = static_cast<double>(built.instance.capacity[static_cast<size_t>(device)][0]) / c.chunks;
        const double in_flight = static_cast<double>(traits_of(shape.schedule).least_memory && c.chunks == 1
                                                         ? std::min<int64_t>(c.num_micro, c.num_stages - device)
                                                         : std::min<int64_t>(c.num_micro, c.num_stages));
        double time = 0, bytes = 0, transient = 0;
        for (bool first = true; u < L - (V - 1 - v); ++u, first = false) {
          const size_t kind = static_cast<size_t>(space.layers[static_cast<size_t>(u)].kind);
          const int k = row[kind][machine];
          const CostVector& x = t.kinds[kind].cost[form][static_cast<size_t>(k)];
          time += static_cast<double>(c.num_micro * (x.forward + gradient_ps(x)) + x.begin + x.sync + x.update);
          bytes += static_cast<double>(x.persistent[0]) + in_flight * static_cast<double>(x.held[0]);
          transient = std::max(transient, static_cast<double>(x.transient));
          if (!first && (time > limit || bytes + transient > room)) break;
          if (v + 1 == V && time > limit) return false;
          a.stage.push_back(v), a.strategy.push_back(k);
        }
        if (v + 1 == V && u < L) return false;
      }
      return true;
    };
    double high = 1;
    while (high < 1e18 && !place(high)) high *= 2;
    if (high >= 1e18) continue;
    double low = high / 2;
    for (int step = 0; step < kSteps; ++step) (place((low + high) / 2) ? high : low) = (low + high) / 2;
    if (!place(high)) continue;
    const Priced priced = pricer(a);
    if (!priced.fits() || (best.found && priced.makespan >= best.makespan)) continue;
    best = {true, a, priced.makespan};
  }
  return best;
}

}  // namespace tern
