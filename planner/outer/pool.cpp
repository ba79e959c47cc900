// Pipelines of unlike shape side by side on a cluster of unlike nodes: what they would take, beside the best plan whose
// replicas are alike.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.h"
#include "plan/legality.h"
#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/price.h"
#include "planner/instance/relaxation_impl.h"
#include "planner/instance/search.h"
#include "planner/outer/best_pool_impl.h"
#include "planner/outer/pipeline_pool.h"

namespace tern {
namespace {

constexpr int64_t kMostGroups = 16;  // of devices, in the pool
constexpr int kMostPipelines = 4;
constexpr int64_t kMostMicro = 512;
constexpr size_t kMostPoolOrders = 24;
constexpr int kPoolRounds = 24;
constexpr int64_t kLabels = 100'000, kSimulations = 50;

// A machine whose replicas' gradients always cross the network, at the pace of the slowest node of the pool.
Machine across_nodes(const SpaceOfChoices& space, const Cluster& cluster, size_t machine, int64_t tensor, int ranks) {
  Machine m = space.machines[machine];
  double slowest = std::numeric_limits<double>::infinity();
  const NetworkLevel& level = cluster.network.back();
  for (const Machine& x : space.machines)
    slowest = std::min(slowest, x.node.network / level.oversubscription / static_cast<double>(x.node.num_devices));
  m.num_nodes = std::max<int64_t>(m.num_nodes, tensor * ranks);
  m.levels = {m.levels.front(), {level.name, tensor * ranks, slowest, level.latency_ps}};
  m.levels.front().devices = tensor;
  return m;
}

// All pipelines of one tensor degree, micro-batch and number of replicas.
class PoolOf {
 public:
  PoolOf(const SpaceOfChoices& space, const Cluster& cluster, const PlanRequest& request, const Mesh& mesh,
         int64_t micro_batch, const std::vector<int64_t>& room)
      : space_(space) {
    SearchSpace kept = request.space;
    kept.zero = {0};  // states are not sharded over replicas that hold other layers
    std::vector<ChoiceTables> made(room.size());
    std::vector<const ChoiceTables*> of(room.size(), nullptr);
    std::vector<Machine> machines = space.machines;
    for (size_t m = 0; m < room.size(); ++m) {
      if (room[m] == 0) continue;
      machines[m] = across_nodes(space, cluster, m, mesh.tensor, static_cast<int>(mesh.data));
      made[m] =
          make_tables(*space.spec, space.job, kept, space.layers, machines, static_cast<int>(m), mesh, micro_batch);
      of[m] = &made[m];
    }
    tables_ = join_tables(cluster, space.machines, of);
    // Work of the whole model on each machine alone, by kind the share of the quickest.
    for (size_t m = 0; m < room.size(); ++m) {
      double ratio = of[m] ? 1e300 : 0;
      for (size_t kind = 0; of[m] && kind < tables_.kinds.size(); ++kind)
        ratio = std::min(ratio, work(kind, static_cast<int>(m)) / work(kind, -1));
      ratio_.push_back(ratio);
    }
    for (size_t kind = 0; kind < tables_.kinds.size(); ++kind) quickest_ += layers_of_kind(kind) * work(kind, -1);
  }

  // All micro-batches' work, shared out over the devices by their speeds.
  int64_t bound(const std::vector<int>& uses, int m) const {
    double speed = 0;
    for (size_t t = 0; t < uses.size(); ++t)
      if (uses[t] > 0) speed += uses[t] / ratio_[t];
    const int stages = std::accumulate(uses.begin(), uses.end(), 0);
    if (stages == 0 || stages > static_cast<int>(space_.layers.size())) return kNever;
    return static_cast<int64_t>(m * quickest_ / speed * (1 - 1e-9));
  }

  PoolProblem::Solved solve(const std::vector<int>& uses, int m, int64_t upper, std::string& told) const {
    const int stages = std::accumulate(uses.begin(), uses.end(), 0);
    const std::vector<int64_t> room(uses.begin(), uses.end());
    PoolProblem::Solved best{kNever, kNever};
    auto [orders, complete] = orders_of(stages, room, kMostPoolOrders);
    if (std::count(uses.begin(), uses.end(), stages))  // one machine alone
      orders = {std::vector<int>(static_cast<size_t>(stages),
                                 static_cast<int>(std::find(uses.begin(), uses.end(), stages) - uses.begin()))},
      complete = true;
    if (!complete) best.bound = bound(uses, m);
    for (const auto& order : orders) {
      const Instance in = instance(order, m);
      if (longest_step(in) >= kMostStepPs) {  // not counted
        best.bound = 0;
        continue;
      }
      SearchOptions options{
          .upper_bound = std::min(upper, best.makespan), .simulations = kSimulations, .labels = kLabels};
      const CutBound cut = cut_bound(make_chain(in, Objective::simulated), options.upper_bound, kPoolRounds);
      const SearchResult r =
          cut.bound < options.upper_bound ? search(in, options) : SearchResult{.bound_ps = cut.bound};
      best.bound = std::min(best.bound, r.infeasible ? kNever : std::max(r.bound_ps, cut.bound));
      if (!r.found) continue;
      best.makespan = r.makespan_ps;
      told = words(order);
    }
    best.bound = std::min(best.bound, best.makespan);
    return best;
  }

 private:
  double layers_of_kind(size_t kind) const {
    double n = 0;
    for (const Layer& l : space_.layers) n += l.kind == static_cast<int>(kind);
    return n;
  }
  // Least compute of a layer on a machine; −1: on any.
  double work(size_t kind, int machine) const {
    double least = 1e300;
    const auto& rows = tables_.kinds[kind];
    for (size_t k = 0; k < rows.cost[kStaged].size(); ++k)
      if (machine < 0 || rows.machine[kStaged][k] == machine)
        least = std::min(least, static_cast<double>(std::max<int64_t>(
                                    1, rows.cost[kStaged][k].forward + gradient_ps(rows.cost[kStaged][k]))));
    return least;
  }
  std::string words(const std::vector<int>& order) const {
    std::vector<std::string> names;
    for (size_t s = 0; s < order.size();) {
      size_t n = 1;
      while (s + n < order.size() && order[s + n] == order[s]) ++n;
      names.push_back(fmt::format("{}{}", space_.machines[static_cast<size_t>(order[s])].node.name,
                                  n == 1 ? "" : fmt::format(" × {}", n)));
      s += n;
    }
    return join(names, ", ");
  }
  // Links inside a node where there is only one of them; else as between nodes.
  Instance instance(const std::vector<int>& order, int m) const {
    const int form = order.size() == 1 ? kWhole : kStaged;
    Instance in{.num_stages = static_cast<int>(order.size()), .num_micro = m, .stage_type = order};
    const size_t M = space_.machines.size();
    for (const Layer& layer : space_.layers) {
      const auto& rows = tables_.kinds[static_cast<size_t>(layer.kind)];
      in.cost.push_back(rows.cost[form]), in.strategy_type.push_back(rows.machine[form]);
      in.layer_class.push_back(layer.kind);
    }
    for (size_t u = 0; u + 1 < space_.layers.size(); ++u) {
      const size_t kind = static_cast<size_t>(space_.layers[u].kind);
      in.within.emplace_back(in.cost[u].size() * in.cost[u + 1].size());
      auto& across = in.across.emplace_back();
      for (const int a : in.strategy_type[u])
        for (const int b : in.strategy_type[u + 1])
          across.push_back(a == b && space_.machines[static_cast<size_t>(a)].num_nodes == 1
                               ? tables_.inside[kind][static_cast<size_t>(a)]
                               : tables_.between[kind][static_cast<size_t>(a) * M + static_cast<size_t>(b)]);
    }
    for (const int type : order) in.capacity.push_back(capacity_of(space_.machines[static_cast<size_t>(type)]));
    return in;
  }

  const SpaceOfChoices& space_;
  ChoiceTables tables_;
  std::vector<double> ratio_;  // by machine: least of its time over the quickest's, over kinds of layers
  double quickest_ = 0;        // of one micro-batch
};

}  // namespace

PoolFamily best_pool(const SpaceOfChoices& space, const Cluster& cluster, const PlanRequest& request,
                     int64_t upper_bound, const std::function<bool()>& late) {
  PoolFamily best{.bound = upper_bound};
  if (space.machines.size() < 2 || cluster.network.empty()) return best;
  for (int64_t tensor = 1; tensor <= request.space.max_tensor; tensor *= 2)
    for (int64_t b = 1; b <= std::min(request.space.max_micro_batch, space.job.batch); b *= 2) {
      const int64_t micro = space.job.batch / b;
      std::vector<int64_t> room;
      std::vector<int> devices;
      for (const Machine& m : space.machines) {
        const Mesh mesh{.tensor = tensor};
        const bool fits = why_illegal(*space.spec, space.job, m, mesh, b).empty();
        room.push_back(fits ? usable_devices(m, mesh) / tensor : 0);
        devices.push_back(static_cast<int>(std::min<int64_t>(room.back(), kMostGroups + 1)));
      }
      const int64_t groups = std::accumulate(devices.begin(), devices.end(), int64_t{0});
      if (space.job.batch % b || groups < 2) continue;
      if (micro > kMostMicro || groups > kMostGroups) {
        best.complete = false;
        continue;
      }
      for (int R = 2; R <= std::min<int64_t>({groups, kMostPipelines, micro}); ++R) {
        const PoolOf pool(space, cluster, request, {.tensor = tensor, .data = R}, b, room);
        std::map<std::pair<std::vector<int>, int>, std::string> told;
        const int64_t most = best.found ? best.makespan : upper_bound;
        const PoolAnswer a =
            share_pool({.devices = devices,
                        .pipelines = R,
                        .num_micro = static_cast<int>(micro),
                        .bound = [&](const std::vector<int>& uses, int m) { return pool.bound(uses, m); },
                        .solve =
                            [&](const std::vector<int>& uses, int m) {
                              return pool.solve(uses, m, most, told[{uses, m}]);
                            }},
                       most, late);
        best.bound = std::min(best.bound, a.bound);
        best.columns += a.columns, best.searched += a.searched;
        if (late()) best.complete = false;
        if (!a.found || a.makespan >= most) continue;
        best.found = true, best.makespan = a.makespan;
        std::vector<std::string> words;
        for (const PoolPipeline& p : a.pipelines)
          words.push_back(fmt::format("{} ({} × {})", told[{p.uses, p.num_micro}], b, p.num_micro));
        best.choice = fmt::format("tp {}, {} pipelines: {}", tensor, R, join(words, "; "));
      }
    }
  return best;
}

}  // namespace tern
