// What the outer loop found, as a Plan with its explanation.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "hardware/rates.h"
#include "plan/legality.h"
#include "plan/window_mix.h"
#include "planner/plan_model_impl.h"
#include "planner/price.h"
#include "planner/search.h"

namespace tern {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr size_t kTriedOfFamily = 6;  // choices
constexpr size_t kValuesPerFeature = 8;
constexpr double kLateSeconds = 0.3;

// "rtx3090 × 2, rtx4080m × 1": stages by type of node, in the order of the first of each.
std::string nodes_of(const SpaceOfChoices& space, const Candidate& c) {
  if (c.order < 0) return machine_of_stage(space, c, 0).node.name;
  std::vector<std::pair<std::string, int>> counts;
  for (int s = 0; s < c.num_stages; ++s) {
    const std::string& name = machine_of_stage(space, c, s).node.name;
    const auto at = std::find_if(counts.begin(), counts.end(), [&](const auto& x) { return x.first == name; });
    if (at == counts.end())
      counts.emplace_back(name, 1);
    else
      ++at->second;
  }
  if (counts.size() == 1) return counts.front().first;
  std::vector<std::string> words;
  for (const auto& [name, n] : counts) words.push_back(fmt::format("{} × {}", name, n));
  return join(words, ", ");
}

struct Feature {
  std::string_view name;
  std::function<std::string(const SpaceOfChoices&, const Candidate&, const OuterChoice&)> value;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> all{
      {"nodes", [](const SpaceOfChoices& space, const Candidate& c, const OuterChoice&) { return nodes_of(space, c); }},
      {"schedule",
       [](const auto&, const auto&, const OuterChoice& c) {
         if (c.num_stages == 1) return std::string("none");
         return c.schedule == Schedule::interleaved ? fmt::format("interleaved × {}", c.chunks_per_stage)
                                                    : std::string(schedule_name(c.schedule));
       }},
      {"stages", [](const auto&, const auto&, const OuterChoice& c) { return fmt::format("{}", c.num_stages); }},
      {"tensor", [](const auto&, const auto&, const OuterChoice& c) { return fmt::format("{}", c.mesh.tensor); }},
      {"context",
       [](const auto&, const auto&, const OuterChoice& c) {
         return fmt::format("{}{}", c.mesh.context, c.mesh.context == 1 ? "" : c.mesh.ulysses ? " ulysses" : " ring");
       }},
      {"data", [](const auto&, const auto&, const OuterChoice& c) { return fmt::format("{}", c.mesh.data); }},
      {"expert", [](const auto&, const auto&,
                    const OuterChoice& c) { return fmt::format("{} × {}", c.mesh.expert, c.mesh.expert_tensor); }},
      {"micro-batch", [](const auto&, const auto&, const OuterChoice& c) { return fmt::format("{}", c.micro_batch); }},
  };
  return all;
}

std::string value_of(const SpaceOfChoices& space, const Feature& feature, size_t candidate) {
  const Candidate& c = space.candidates[candidate];
  return feature.value(space, c, choice_of(space, c));
}

struct Family {
  PlannedFamily told;
  std::vector<int> members;      // candidates
  int cheapest = -1, plan = -1;  // of them: least bound; of the best plan seen
};

// Families of one feature that the best plan does not belong to, those with the least bounds first.
std::vector<Family> families_of(const SpaceOfChoices& space, const OuterOutcome& out, const Feature& feature) {
  std::map<std::string, Family> by_value;
  const std::string chosen = value_of(space, feature, static_cast<size_t>(out.best));
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    if (any_order(space, space.candidates[i])) continue;
    const std::string value = value_of(space, feature, i);
    if (value == chosen) continue;
    Family& f = by_value[value];
    f.members.push_back(static_cast<int>(i));
    if (f.cheapest < 0 || out.bounds[i] < out.bounds[static_cast<size_t>(f.cheapest)]) f.cheapest = static_cast<int>(i);
  }
  for (const auto& [index, makespan] : out.plans) {
    const std::string value = value_of(space, feature, static_cast<size_t>(index));
    if (value == chosen) continue;
    Family& f = by_value[value];
    if (f.plan >= 0 && f.told.step_ps <= makespan) continue;
    f.plan = index, f.told.step_ps = makespan, f.told.found = true;
  }
  std::vector<Family> list;
  for (auto& [value, f] : by_value) {
    f.told.feature = fmt::format("{} {}", feature.name, value);
    f.told.bound_ps = out.bounds[static_cast<size_t>(f.cheapest)];
    f.told.fits = f.told.bound_ps < kNever;
    if (!f.told.fits) f.told.bound_ps = 0;
    list.push_back(std::move(f));
  }
  std::stable_sort(list.begin(), list.end(), [](const Family& a, const Family& b) {
    return std::pair(!a.told.fits, a.told.bound_ps) < std::pair(!b.told.fits, b.told.bound_ps);
  });
  if (list.size() > kValuesPerFeature) list.resize(kValuesPerFeature);
  return list;
}

// The best plan of a family that looking at its most promising choices gives: one strategy everywhere, and every layer
// as fast as memory lets it be. The family's bound says how much better its very best may be.
void find_plan(const SpaceOfChoices& space, const OuterOutcome& out, Family& f, const std::function<bool()>& late) {
  const auto bound = [&](int i) { return out.bounds[static_cast<size_t>(i)]; };
  const size_t tried = std::min(kTriedOfFamily, f.members.size());
  std::partial_sort(f.members.begin(), f.members.begin() + static_cast<std::ptrdiff_t>(tried), f.members.end(),
                    [&](int a, int b) { return std::pair(bound(a), a) < std::pair(bound(b), b); });
  BuiltInstance built;
  for (size_t i = 0; i < tried && !late(); ++i) {
    const int index = f.members[i];
    const int64_t best = f.told.found ? f.told.step_ps : kNever;
    if (bound(index) >= best) break;
    const Candidate& c = space.candidates[static_cast<size_t>(index)];
    build_instance(space, c, built);
    std::vector<UniformPlan> plans;
    if (space.pinned.even)
      plans = {even_plan(space, c, built.instance).plan};
    else
      plans = {uniform_plan(space, c, built), repaired_plan(space, c, built, best)};
    for (const UniformPlan& plan : plans)
      if (plan.found && (!f.told.found || plan.makespan < f.told.step_ps))
        f.plan = index, f.told.found = true, f.told.step_ps = plan.makespan;
  }
  f.members.clear();
  if (f.plan >= 0) f.told.choice = to_string(choice_of(space, space.candidates[static_cast<size_t>(f.plan)]));
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// What keeps this choice from being faster: a faster assignment that lacks bytes here, one that lacks none (the search
// was not finished), or only the clock.
std::string binding(const SpaceOfChoices& space, const BuiltInstance& built, const PipelineRun& run,
                    const OuterOutcome& out, double seconds) {
  Instance roomy = built.instance;
  for (TierBytes& tier : roomy.capacity) tier.fill(int64_t{1} << 60);
  UniformPlan r;
  if (space.pinned.even) {
    r = even_plan(space, space.candidates[static_cast<size_t>(out.best)], roomy).plan;
  } else {
    const SearchResult s =
        search(roomy, {.upper_bound = out.makespan, .seconds = seconds, .simulations = 100, .labels = 30'000});
    r = {s.found, s.assignment, s.makespan_ps};
  }
  if (r.found && r.makespan < out.makespan) {
    const std::string less = percent(1 - static_cast<double>(r.makespan) / static_cast<double>(out.makespan));
    const Priced faster = price(built.instance, r.assignment);
    if (faster.fits()) return fmt::format("the search, not finished: this mesh has a plan that takes {} less", less);
    return fmt::format("{} memory: with {} more (rank {}) this mesh would take {} less", name_of(faster.tier),
                       format_bytes(faster.missing_bytes), faster.device, less);
  }
  const auto busiest = std::max_element(run.busy.begin(), run.busy.end());
  const double busy = static_cast<double>(*busiest) / static_cast<double>(out.makespan);
  return fmt::format("compute and communication of rank {}, busy {} of the step; memory does not bind",
                     busiest - run.busy.begin(), percent(busy));
}

}  // namespace

void make_plan(const SpaceOfChoices& space, const Cluster& cluster, const PlanRequest& request, const OuterOutcome& out,
               PlanAnswer& answer) {
  const Candidate& c = space.candidates[static_cast<size_t>(out.best)];
  BuiltInstance built;
  build_instance(space, c, built);
  const Priced priced = price(built.instance, out.assignment);
  TERN_CHECK(priced.makespan == out.makespan && priced.fits(), "plan_model: priced {} ps, searched {} ps",
             priced.makespan, out.makespan);
  const PipelineRun run = run_pipeline(priced.shape, pipeline_order(priced.shape, priced.times), priced.times);

  answer.shape = priced.shape, answer.times = priced.times;
  answer.memory = memory_classes(space, c, built.instance, out.assignment, priced);
  Plan& p = answer.plan;
  p.model = request.model, p.hardware = cluster.name, p.node = nodes_of(space, c);
  p.parameters = num_parameters(*space.spec);
  p.job = request.job;
  p.choice = choice_of(space, c);
  p.idle_devices = cluster.num_devices() - p.choice.devices();
  p.layers = planned_layers(space, c, out.assignment);
  p.step_ps = out.makespan;
  double peak = 0;
  for (int d = 0; d < c.num_stages; ++d) {
    const size_t at = static_cast<size_t>(d);
    const Machine& machine = machine_of_stage(space, c, d);
    p.ranks.push_back({machine.node.name, priced.peak[at], capacity_of(machine), run.busy[at], priced.times.begin[at],
                       priced.times.tail[at]});
    p.price_per_hour += machine.price_per_hour(p.choice.mesh.devices());
    peak += static_cast<double>(p.choice.mesh.devices()) * peak_flops(machine.device, p.job.dtype);
  }
  p.flops_share = training_flops_per_token(*space.spec, p.job) * p.tokens_per_second() / peak;
  p.bound_ps = out.bound, p.model_ps = out.model, p.model_bound_ps = out.model_bound;
  p.counts = out.counts;
  if (request.space.pinned.any())
    p.restrictions.push_back("given: " + to_string(request.space.pinned) + "; the proof is about choices with these");
  if (space.pinned.framework) p.restrictions.emplace_back(limits_in_words(*space.pinned.framework));
  if (space.machines.size() > 1 && space.pinned.even)
    p.restrictions.push_back("unlike nodes: layers=even, so all stages lie on nodes of one type");
  else if (space.machines.size() > 1)
    p.restrictions.push_back(
        "unlike nodes: a pipeline's stages may lie on nodes of several types, all with one mesh, and fill the nodes of "
        "a type in order; the bound covers these, not meshes that differ from stage to stage");
  if (out.orders_open)
    p.restrictions.push_back(
        fmt::format("{} numbers of stages and schedules over unlike nodes: only orders with the stages of a type "
                    "together were searched; the gap covers the rest",
                    out.orders_open));
  if (out.restricted_open)
    p.restrictions.push_back(
        fmt::format("{} choices with several chunks per stage: the best of a restricted family of "
                    "splits; the gap covers the rest",
                    out.restricted_open));
  const bool chunks = std::any_of(space.candidates.begin(), space.candidates.end(), [&](const Candidate& x) {
    return x.chunks > 1 && space.tables[static_cast<size_t>(x.tables)].mesh.replicas() > 1;
  });
  if (chunks)
    p.restrictions.push_back(
        "several chunks per stage with gradients to synchronise: times are an upper bound, and the proof is about "
        "them; "
        "the Program of such a choice may be faster (docs/planner.md: up to 7.7 % seen)");
  if (space.cut)
    p.restrictions.push_back(
        "the time was over before every choice was enumerated: the rest are in no count; the bound is that of the "
        "model's products on all devices at their peak");
  if (!space.bounded.empty())
    p.restrictions.push_back(fmt::format(
        "{} choices of more than {} operations, or with steps of more than 13 days, were bounded and not planned; the "
        "bounds of {} leave room for a faster plan, and the gap covers them",
        space.bounded.size(), kMostOperations, out.bounded_open));
  // Of a search that was cut short the explanation is, too.
  const double seconds = out.interrupted ? kLateSeconds : std::numeric_limits<double>::infinity();
  const auto start = std::chrono::steady_clock::now();
  p.binds = binding(space, built, run, out, seconds);
  if (out.pool.columns > 0) {
    p.families.push_back({.feature = "unlike pipelines side by side",
                          .found = out.pool.found,
                          .choice = out.pool.choice,
                          .step_ps = out.pool.makespan,
                          .bound_ps = out.pool.bound});
    if (!out.pool.complete)
      p.restrictions.push_back(
          "unlike pipelines side by side: not all were looked at (more than 16 groups of devices or 512 "
          "micro-batches, or the time was over)");
    if (out.pool.found)
      p.restrictions.push_back("unlike pipelines side by side would be faster (rivals); nothing here runs them yet");
  }
  for (const Feature& feature : features())
    for (Family& f : families_of(space, out, feature)) {
      find_plan(space, out, f, [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= seconds;
      });
      p.families.push_back(f.told);
    }
}

// The search knows exactly what a choice lacks; the screen before it only at least how much.
NoFit make_no_fit(const SpaceOfChoices& space, const OuterOutcome& out) {
  NoFit n = out.no_fit;
  const Candidate* c = out.no_fit_index >= 0 ? &space.candidates[static_cast<size_t>(out.no_fit_index)] : nullptr;
  BuiltInstance built;
  for (const auto& [at_least, candidate] : space.nearest) {
    if (c && at_least >= n.missing_bytes) break;
    build_instance(space, candidate, built);
    if (space.late() && c) break;
    EvenPlan lacks;
    if (space.pinned.even) {
      lacks = even_plan(space, candidate, built.instance);
    } else {
      const SearchResult r = search(built.instance, {.simulations = 0, .labels = 1000});
      lacks = {.plan = {.found = !r.infeasible}, .missing_bytes = r.missing_bytes, .tier = r.tier, .rank = r.device};
    }
    if (lacks.plan.found || (c && lacks.missing_bytes >= n.missing_bytes)) continue;
    c = &candidate, n.missing_bytes = lacks.missing_bytes, n.tier = lacks.tier, n.rank = lacks.rank;
  }
  if (!c) return n;
  const Machine& m = machine_of_stage(space, *c, n.rank);
  n.choice = to_string(choice_of(space, *c)), n.node = m.node.name;
  n.capacity_bytes = capacity_of(m)[static_cast<size_t>(n.tier)];
  return n;
}

}  // namespace tern
