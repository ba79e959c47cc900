// The outer choices: meshes, and pipelines over them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "hardware/machine.h"
#include "plan/legality.h"
#include "planner/outer/candidates_impl.h"
#include "planner/outer/choice_bounds_impl.h"

namespace tern {
namespace {

constexpr size_t kMostOrders = 64;  // of stages over unlike nodes, of one mesh and number of stages
constexpr int64_t kManyNodes = 1 << 24;
// Work of making a table and of a choice, as operations of a pipeline that take about as long.
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
    out_.machines = machines_of(cluster);  // equal nodes are one machine wherever they stand in the file
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
    c.schedule = static_cast<int32_t>(c.num_stages == 1 ? kOneStageSchedule : schedule);
    const int first = c.num_stages == 1 ? 1 : least_chunks(schedule);
    const int last = c.num_stages == 1 ? 1 : most_chunks(schedule, space_.max_chunks);
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
    if (most_work_ == 0) c.bound = cheap_bound(out_, c, capacity[0]);
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

}  // namespace tern
