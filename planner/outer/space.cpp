// The outer choices: meshes, pipelines over them, and for each a bound that costs nanoseconds.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>

#include "base/error.h"
#include "plan/legality.h"
#include "planner/instance/price.h"
#include "planner/outer/plan_model_impl.h"

namespace tern {
namespace {

// A bound in doubles as a number that sums of a few stay countable with.
int64_t whole_bound(double ps) { return static_cast<int64_t>(std::min(ps, 2 * kMostStepPs)); }

// Bounds that hold whatever the stages. Summed over the devices, P·T is at least
//   begin + (c − 1)·p + f + [the last micro-batch's gradients, or all synchronisation: both come after] + update
// and any mixture α of the two in the bracket; each layer adds its least. With a price mu on its persistent bytes and
// one micro-batch's, less mu times all the memory there is, it is Lagrange's bound for the devices' memory.
double shared_bound(const ChoiceTables& t, const Candidate& c, double alpha, double mu, double capacity) {
  double sum = 0;
  for (const ChoiceTables::Rows& rows : t.kinds) {
    double least = std::numeric_limits<double>::infinity();
    for (const CostVector& v : rows.cost[form_of(c)]) {
      const double gradient = static_cast<double>(gradient_ps(v)), forward = static_cast<double>(v.forward);
      const double last = (1 - alpha) * gradient + alpha * static_cast<double>(v.sync);
      least = std::min(least, static_cast<double>(c.num_micro - 1) * (forward + gradient) + forward + last +
                                  static_cast<double>(v.begin + v.update) +
                                  mu * static_cast<double>(v.persistent[0] + v.held[0]));
    }
    sum += least * rows.layers;
  }
  return sum / c.num_stages - mu * capacity;
}

// Without split backwards a stage starts after the forwards before it and ends before the backwards: c·p_i + Σ_{j<i}
// p_j ≤ T for all i, which a balanced choice of p makes equal: T ≥ S / (1 − (1 − 1/c)^P).
int64_t cheap_bound(const ChoiceTables& t, const Candidate& c, double capacity, int64_t edge) {
  double bound = 0;
  for (const double alpha : {0.0, 0.5, 1.0}) bound = std::max(bound, shared_bound(t, c, alpha, 0, capacity));
  const PipelineSchedule s = static_cast<PipelineSchedule>(c.schedule);
  const bool plain =
      s == PipelineSchedule::gpipe || s == PipelineSchedule::one_f_one_b || s == PipelineSchedule::deep_one_f_one_b;
  if (plain && c.num_stages > 1) {
    const double S = static_cast<double>(t.compute[1]), m = static_cast<double>(c.num_micro);
    bound = std::max(bound, S / -std::expm1(c.num_stages * std::log1p(-1 / m)));
    // The first micro-batch's way there and back; then, on the average stage, the other backwards, and the forwards
    // that are not in flight by then.
    const double P = static_cast<double>(c.num_stages), F = static_cast<double>(t.forward[1]);
    const double B = static_cast<double>(t.gradient[1]),
                 late = s == PipelineSchedule::one_f_one_b ? std::max(0.0, m - P) : 0;
    bound = std::max(bound, F + B + (P - 1) * static_cast<double>(edge) + ((m - 1) * B + late * F) / P);
  }
  const double scale = bound / capacity;  // ps per byte at which all the memory is worth the whole step
  for (const double mu : {0.0625, 0.125, 0.25, 0.5, 1.0, 2.0})
    bound = std::max(bound, shared_bound(t, c, 0, mu * scale, capacity));
  return whole_bound(bound * (1 - 1e-12));
}

int64_t least_edge(const SpaceOfChoices& space, const Candidate& c) {
  const std::vector<bool> near = in_one_node(space, c);
  return space.tables[static_cast<size_t>(c.tables)]
      .least_edge[std::find(near.begin(), near.end(), true) != near.end()];
}

constexpr size_t kMostOrders = 64;  // of stages over unlike nodes, of one mesh and number of stages
constexpr int64_t kManyNodes = 1 << 24;
// What takes about as long as so many operations of a pipeline.
constexpr int64_t kWorkOfTable = 10'000, kWorkOfChoice = 100;

class Enumeration {
 public:
  Enumeration(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request)
      : spec_(spec),
        cluster_(cluster),
        job_(request.job),
        space_(request.space),
        most_work_(request.any_fit_within),
        stop_(request.stop) {
    using Clock = std::chrono::steady_clock;
    if (request.seconds < 1e9)
      out_.deadline =
          Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.seconds));
    if (request.seconds < 1e9) half_ = out_.deadline - (out_.deadline - Clock::now()) / 2;
    for (int64_t d = 1; d <= job_.batch / d; ++d)
      if (job_.batch % d == 0) {
        divisors_.push_back(d);
        if (d != job_.batch / d) divisors_.push_back(job_.batch / d);
      }
    std::sort(divisors_.begin(), divisors_.end());
    out_.work_bound = work_bound(spec, cluster, job_);
    out_.spec = &spec, out_.job = request.job, out_.layers = layers_of(spec), out_.pinned = request.space.pinned;
    std::map<int, int64_t> counts;  // equal nodes are one machine wherever they stand in the file
    for (const NodeGroup& g : cluster.groups) counts[g.node] += g.count;
    for (const auto& [node, count] : counts) {
      Cluster alone = cluster;
      alone.groups = {{node, count}};
      out_.machines.push_back(tern::machine_of(alone, 0));
    }
    for (const Unit& unit : spec.units)
      if (const auto* e = std::get_if<MoeSpec>(&unit.spec)) experts_ = e->experts;
  }

  SpaceOfChoices run() {
    for (int g = 0; g < static_cast<int>(out_.machines.size()); ++g) over_meshes(g);
    const bool mixed = out_.machines.size() > 1 && !cluster_.network.empty() && space_.max_stages > 1;
    if (mixed && !space_.pinned.even) over_meshes(kMixed);
    return std::move(out_);
  }

 private:
  // Of a machine, or for mixed pipelines of all of them.
  template <class Value>
  int64_t most_of(int g, const Value& value) const {
    if (g != kMixed) return value(out_.machines[static_cast<size_t>(g)]);
    int64_t most = 0;
    for (const Machine& m : out_.machines) most = std::max<int64_t>(most, value(m));
    return most;
  }

  void over_meshes(int g) {
    const int64_t devices = most_of(g, [](const Machine& m) { return m.num_devices(); });
    const PinnedAxes& pinned = space_.pinned;
    for (int64_t tensor = 1; tensor <= std::min(space_.max_tensor, devices); ++tensor)
      for (int64_t context = 1; context <= std::min(space_.max_context, devices / tensor); ++context)
        for (const bool ulysses : {false, true})
          if (late())
            return;
          else if (tensor != pinned.tensor.value_or(tensor) || context != pinned.context.value_or(context))
            continue;
          else if (!ulysses || (space_.ulysses && context > 1))
            over_data(g, {tensor, context, 1, 1, 1, ulysses});
  }

  void over_data(int g, Mesh mesh) {
    if (!legal(g, mesh, 1)) return;
    const int64_t most = std::min(job_.batch, most_of(g, [&](const Machine& m) { return usable_devices(m, mesh); }) /
                                                  (mesh.tensor * mesh.context));
    for (const int64_t data : divisors_) {
      if (data > most) break;
      if (data != space_.pinned.data.value_or(data)) continue;
      mesh.data = data;
      for (const int64_t b : divisors_) {
        if (b > space_.max_micro_batch || late()) break;
        if (job_.batch / data % b == 0) over_experts(g, mesh, b);
      }
    }
  }

  void over_experts(int g, Mesh mesh, int64_t micro_batch) {
    if (!experts_) return over_pipelines(g, mesh, micro_batch);
    for (mesh.expert = 1; mesh.expert <= std::min(space_.max_expert, experts_); ++mesh.expert)
      for (const int64_t split : {int64_t{1}, mesh.tensor}) {
        mesh.expert_tensor = split;
        if (late()) return;
        if (legal(g, mesh, micro_batch)) over_pipelines(g, mesh, micro_batch);
        if (mesh.tensor == 1) break;
      }
  }

  void over_pipelines(int g, const Mesh& mesh, int64_t micro_batch) {
    if (late() || !may_be_pinned(space_.pinned, mesh, micro_batch)) return;
    if (g == kMixed) return over_orders(mesh, micro_batch);
    const Machine& m = out_.machines[static_cast<size_t>(g)];
    const int num_layers = static_cast<int>(out_.layers.size());
    const int64_t room = usable_devices(m, mesh) / mesh.devices();
    const int most = static_cast<int>(std::min<int64_t>({room, num_layers, space_.max_stages}));
    if (most < 1) return;
    out_.work += kWorkOfTable;
    out_.tables.push_back(make_tables(spec_, job_, space_, out_.layers, out_.machines, g, mesh, micro_batch));
    sum_up(out_.tables.back(), out_.layers);
    Candidate c{.tables = static_cast<int32_t>(out_.tables.size()) - 1};
    c.num_micro = job_.batch / (mesh.data * micro_batch);
    for (c.num_stages = 1; c.num_stages <= most; ++c.num_stages)
      for (const PipelineSchedule s : space_.schedules) over_chunks(c, s);
    if (c.num_stages == 1) out_.tables.pop_back();
  }

  // Pipelines over several machines: every order of stages where they are few, else those with the stages of a machine
  // together, and one candidate that stands for the rest.
  void over_orders(const Mesh& mesh, int64_t micro_batch) {
    std::vector<int64_t> room;
    std::vector<ChoiceTables> made(out_.machines.size());
    std::vector<const ChoiceTables*> of(out_.machines.size(), nullptr);
    const int num_layers = static_cast<int>(out_.layers.size());
    for (size_t m = 0; m < out_.machines.size(); ++m) {
      const bool fits = why_illegal(spec_, job_, out_.machines[m], mesh, micro_batch).empty();
      room.push_back(fits ? std::min<int64_t>(num_layers, usable_devices(out_.machines[m], mesh) / mesh.devices()) : 0);
    }
    if (std::count(room.begin(), room.end(), 0) + 1 >= static_cast<int64_t>(room.size())) return;
    for (size_t m = 0; m < room.size(); ++m) {
      if (room[m] == 0) continue;
      out_.work += 2 * kWorkOfTable;  // and joined
      made[m] = make_tables(spec_, job_, space_, out_.layers, out_.machines, static_cast<int>(m), mesh, micro_batch);
      of[m] = &made[m];
    }
    out_.tables.push_back(join_tables(cluster_, out_.machines, of));
    sum_up(out_.tables.back(), out_.layers);
    const int64_t all = std::accumulate(room.begin(), room.end(), int64_t{0});
    const int most = static_cast<int>(std::min<int64_t>({all, num_layers, space_.max_stages}));
    Candidate c{.tables = static_cast<int32_t>(out_.tables.size()) - 1};
    c.num_micro = job_.batch / (mesh.data * micro_batch);
    for (c.num_stages = 2; c.num_stages <= most; ++c.num_stages) {
      auto [orders, complete] = orders_of(c.num_stages, room, kMostOrders);
      if (!complete) orders.emplace_back(static_cast<size_t>(c.num_stages), kAnyType);
      for (const auto& order : orders) {
        c.order = static_cast<int32_t>(out_.orders.size());
        out_.orders.push_back(order);
        for (const PipelineSchedule s : space_.schedules) over_chunks(c, s);
      }
    }
  }

  void over_chunks(Candidate c, PipelineSchedule schedule) {
    const ChoiceTables& t = out_.tables.back();
    Machine m = out_.machines[t.group == kMixed ? 0 : static_cast<size_t>(t.group)];
    if (t.group == kMixed) m.num_nodes = kManyNodes;                        // the orders keep to the devices there are
    if (c.num_stages == 1 && schedule != space_.schedules.front()) return;  // one stage: they are all the same
    c.schedule = static_cast<int32_t>(c.num_stages == 1 ? PipelineSchedule::one_f_one_b : schedule);
    const bool v_shape = is_v_shaped(schedule);
    const bool many = schedule == PipelineSchedule::interleaved;
    const int first = c.num_stages == 1 ? 1 : v_shape || many ? 2 : 1;
    const int last = c.num_stages == 1 || !many ? first : space_.max_chunks;
    for (c.chunks = first; c.chunks <= last; ++c.chunks) {
      if (out_.tables.back().kinds.front().cost[form_of(c)].empty()) return;
      const OuterChoice choice = choice_of(out_, c);
      if (!why_illegal_pipeline(m, choice, static_cast<int>(out_.layers.size())).empty()) continue;
      if (!why_not_pinned(space_.pinned, job_, choice, out_.layers, spec_, m.node.num_devices).empty()) continue;
      const bool too_many = operations_of(choice) > kMostOperations;
      if (too_many && out_.too_many++ == 0)
        note(fmt::format("{} micro-batches in {} stages: more than {} operations are not simulated", c.num_micro,
                         c.num_stages * c.chunks, kMostOperations));
      const bool too_long = !t.longest[form_of(c)].counted(c.num_micro);
      out_.too_long += !too_many && too_long;
      add(c, too_many || too_long);
    }
  }

  // What is not to be planned has its bound alone.
  void add(Candidate c, bool bound_only) {
    const ChoiceTables& t = out_.tables[static_cast<size_t>(c.tables)];
    const TierBytes capacity = most_capacity(out_, t);
    const int64_t room = capacity[0] + capacity[1] + capacity[2];
    out_.work += kWorkOfChoice;
    if (most_work_ == 0) c.bound = cheap_bound(t, c, static_cast<double>(capacity[0]), least_edge(out_, c));
    const int form = form_of(c);
    const int64_t of_device = t.least_device[form] / c.num_stages - capacity[0];
    const int64_t missing = std::max(of_device, t.least_bytes[form] / c.num_stages - room);
    if (missing <= 0) return (bound_only ? out_.bounded : out_.candidates).push_back(c);
    if (any_order(out_, c) || bound_only) return;
    ++out_.no_room;
    constexpr size_t kNearest = 16;
    if (out_.nearest.size() == kNearest && missing >= out_.nearest.back().first) return;
    const auto at = std::upper_bound(out_.nearest.begin(), out_.nearest.end(), missing,
                                     [](int64_t value, const auto& entry) { return value < entry.first; });
    out_.nearest.insert(at, {missing, c});
    if (out_.nearest.size() > kNearest) out_.nearest.pop_back();
  }

  bool legal(int g, const Mesh& mesh, int64_t micro_batch) {
    if (g == kMixed)
      return std::any_of(out_.machines.begin(), out_.machines.end(),
                         [&](const Machine& m) { return why_illegal(spec_, job_, m, mesh, micro_batch).empty(); });
    const Machine& m = out_.machines[static_cast<size_t>(g)];
    const std::string rule = why_illegal(spec_, job_, m, mesh, micro_batch);
    if (!rule.empty()) note(rule);
    return rule.empty();
  }
  void note(const std::string& rule) {
    if (out_.rules.size() < 8) out_.rules.push_back(rule);
  }
  // Of what was not looked at only work_bound is known.
  bool late() {
    if (most_work_ > 0 && out_.work >= most_work_) return out_.cut = true;
    const auto until = out_.candidates.empty() ? out_.deadline : half_;
    if (until == std::chrono::steady_clock::time_point::max() && !stop_) return false;
    return out_.cut |= (stop_ && *stop_) || std::chrono::steady_clock::now() >= until;
  }

  const ModelSpec& spec_;
  const Cluster& cluster_;
  const TrainJob& job_;
  const SearchSpace& space_;
  const int64_t most_work_;  // 0: not counted
  const std::atomic<bool>* stop_;
  int64_t experts_ = 0;
  std::vector<int64_t> divisors_;                                                              // of the batch, rising
  std::chrono::steady_clock::time_point half_ = std::chrono::steady_clock::time_point::max();  // the rest is for plans
  SpaceOfChoices out_;
};

}  // namespace

SpaceOfChoices enumerate_choices(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  return Enumeration(spec, cluster, request).run();
}

OuterChoice choice_of(const SpaceOfChoices& space, const Candidate& c) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  return {.mesh = t.mesh,
          .num_stages = c.num_stages,
          .chunks_per_stage = c.chunks,
          .schedule = static_cast<PipelineSchedule>(c.schedule),
          .micro_batch = t.micro_batch,
          .num_micro = c.num_micro};
}

namespace {

// Links behind layer u, by its strategy and the next layer's.
std::vector<EdgeCost> links_of(const SpaceOfChoices& space, const ChoiceTables& t, int form, size_t u, bool near) {
  const size_t kind = static_cast<size_t>(space.layers[u].kind), next = static_cast<size_t>(space.layers[u + 1].kind);
  const size_t rows = t.kinds[kind].cost[form].size(), columns = t.kinds[next].cost[form].size();
  if (t.group != kMixed) return std::vector<EdgeCost>(rows * columns, t.edge[near][kind]);
  std::vector<EdgeCost> links;
  for (const int a : t.kinds[kind].machine[form])
    for (const int b : t.kinds[next].machine[form])
      links.push_back(near && a == b
                          ? t.inside[kind][static_cast<size_t>(a)]
                          : t.between[kind][static_cast<size_t>(a) * space.machines.size() + static_cast<size_t>(b)]);
  return links;
}

}  // namespace

void build_instance(const SpaceOfChoices& space, const Candidate& c, BuiltInstance& built) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c);
  const std::vector<bool> near = in_one_node(space, c);
  const auto num_near = std::count(near.begin(), near.end(), true);
  const int inside = num_near == 0 ? 0 : num_near == static_cast<int64_t>(near.size()) ? 1 : 2;
  Instance& in = built.instance;
  if (built.tables != c.tables || built.form != form || built.inside != inside) {
    in = {};
    const size_t L = space.layers.size();
    for (const Layer& layer : space.layers) {
      in.cost.push_back(t.kinds[static_cast<size_t>(layer.kind)].cost[form]);
      in.layer_class.push_back(layer.kind);
      if (t.group == kMixed) in.strategy_type.push_back(t.kinds[static_cast<size_t>(layer.kind)].machine[form]);
    }
    for (size_t u = 0; u + 1 < L; ++u) {
      in.within.emplace_back(in.cost[u].size() * in.cost[u + 1].size());
      in.across.push_back(links_of(space, t, form, u, inside == 1));
      if (inside < 2) continue;
      if (in.other_across.empty()) in.other_across.emplace_back();
      in.other_across[0].push_back(links_of(space, t, form, u, true));
    }
    built.tables = c.tables, built.form = form, built.inside = inside;
  }
  in.num_stages = c.num_stages, in.chunks_per_stage = c.chunks, in.num_micro = static_cast<int>(c.num_micro);
  in.schedule = static_cast<PipelineSchedule>(c.schedule);
  in.link_class.clear();
  if (inside == 2) in.link_class.assign(near.begin(), near.end());
  in.capacity.clear(), in.stage_type.clear();
  const bool any = any_order(space, c);
  for (int s = 0; s < c.num_stages; ++s)
    in.capacity.push_back(any ? most_capacity(space, t) : capacity_of(machine_of_stage(space, c, s)));
  if (t.group == kMixed) in.stage_type = space.orders[static_cast<size_t>(c.order)];
}

int64_t crowding_bound(const SpaceOfChoices& space, const Candidate& c, double mu) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c), P = c.num_stages;
  const double room = mu * static_cast<double>(most_capacity(space, t)[0]), micro = static_cast<double>(c.num_micro);
  const bool backwards_last = !splits_backward(static_cast<PipelineSchedule>(c.schedule));
  const int64_t both = P == 1 ? 0 : least_edge(space, c);
  const double edge = static_cast<double>(both) / (backwards_last ? 1 : 2);
  // Of each kind what a layer takes from a device at least, memory priced: work alone; with begin, update and the last
  // gradients; with the synchronisation in the place of those. And its time on the way to a stage behind, and back.
  struct PerLayer {
    double work = 1e300, own = 1e300, own_sync = 1e300, way = 1e300;
  };
  std::vector<PerLayer> kinds;
  for (const ChoiceTables::Rows& rows : t.kinds) {
    PerLayer k;
    for (const CostVector& v : rows.cost[form]) {
      const double f = static_cast<double>(v.forward), g = static_cast<double>(gradient_ps(v));
      const double work = micro * (f + g) + mu * static_cast<double>(v.persistent[0] + v.held[0]);
      const double ends = work + static_cast<double>(v.begin + v.update);
      k.work = std::min(k.work, work);
      k.own = std::min(k.own, ends);
      k.own_sync = std::min(k.own_sync, ends - g + static_cast<double>(v.sync));
      k.way = std::min(k.way, f + (backwards_last ? g : 0));
    }
    kinds.push_back(k);
  }
  // Stages 0 … d − 1 hold the first d layers at least.
  std::vector<double> lead(1, 0);
  for (int d = 1; d < P; ++d)
    lead.push_back(lead.back() + kinds[static_cast<size_t>(space.layers[static_cast<size_t>(d - 1)].kind)].way + edge);
  double bound = 0;
  for (size_t i = 0; i < kinds.size(); ++i) {
    const PerLayer& k = kinds[i];
    const auto too_short = [&](double limit) {
      double places = 0;
      for (const double before : lead)
        places += std::max(0.0, std::floor(std::min({(limit - before + room) / k.work, (limit + room) / k.own,
                                                     (limit + room) / k.own_sync})));
      return places < t.kinds[i].layers;
    };
    double low = bound, high = std::max(1.0, bound);
    while (too_short(high)) low = high, high *= 2;
    while (high - low > 1e-7 * high) (too_short((low + high) / 2) ? low : high) = (low + high) / 2;
    bound = low;
  }
  return whole_bound(bound * (1 - 1e-9));
}

std::vector<PlannedLayers> planned_layers(const SpaceOfChoices& space, const Candidate& c, const Assignment& a) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  std::vector<PlannedLayers> out;
  for (int u = 0; u < static_cast<int>(space.layers.size()); ++u) {
    const size_t at = static_cast<size_t>(u);
    const auto& rows = t.kinds[static_cast<size_t>(space.layers[at].kind)];
    const LayerStrategy& s = rows.strategy[form_of(c)][static_cast<size_t>(a.strategy[at])];
    if (!out.empty() && out.back().stage == a.stage[at] && out.back().strategy == s)
      ++out.back().count;
    else
      out.push_back({u, 1, a.stage[at], s});
  }
  return out;
}

}  // namespace tern
