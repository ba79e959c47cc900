// What the outer loop found, as a Plan with its explanation.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "hardware/rates.h"
#include "plan/job_windows.h"
#include "plan/legality.h"
#include "plan/window_mix.h"
#include "planner/instance/improve.h"
#include "planner/instance/price.h"
#include "planner/instance/search.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/around_plan_impl.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/first_plans_impl.h"
#include "planner/outer/memory_classes_impl.h"
#include "program/pipeline_run.h"
#include "spec/training_flops.h"

namespace tern {
namespace {

std::string rough_percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

// The best plan of the outcome's choice if memory had no end.
UniformPlan plan_with_room(const SpaceOfChoices& space, const Instance& instance, const OuterOutcome& out,
                           double seconds) {
  Instance roomy = instance;
  for (TierBytes& tier : roomy.capacity) tier.fill(int64_t{1} << 60);
  if (space.pinned.even) return even_plan(space, space.candidates[static_cast<size_t>(out.best)], roomy).plan;
  const SearchResult s =
      search(roomy, {.upper_bound = out.makespan, .seconds = seconds, .simulations = 100, .labels = 30'000});
  return {s.found, s.assignment, s.makespan_ps};
}

// What keeps this choice from being faster: memory, or only the clock.
std::string binding(const Instance& instance, const UniformPlan& with_room, const PipelineRun& run,
                    const OuterOutcome& out) {
  if (with_room.found && with_room.makespan < out.makespan) {
    const Priced faster = price(instance, with_room.assignment);
    return fmt::format("{} memory: with {} more (rank {}) this mesh would take {} less", name_of(faster.tier),
                       format_bytes(faster.missing_bytes), faster.device,
                       rough_percent(1 - static_cast<double>(with_room.makespan) / static_cast<double>(out.makespan)));
  }
  const auto busiest = std::max_element(run.busy.begin(), run.busy.end());
  const double busy = static_cast<double>(*busiest) / static_cast<double>(out.makespan);
  return fmt::format(
      "compute and communication of rank {}, busy {} of the step; with more memory no faster plan of this mesh was "
      "found",
      busiest - run.busy.begin(), rough_percent(busy));
}

// What looking around the best plan gives. Whatever is found that is faster is the plan then, and is looked around.
AroundPlan settle(const SpaceOfChoices& space, const PlanRequest& request, OuterOutcome& out, UniformPlan& with_room) {
  // Of a search that was cut short the explanation is, too; one that ends within its time may use what is left of it.
  using Clock = std::chrono::steady_clock;
  const auto least = Clock::now() + std::chrono::milliseconds(300);
  const auto end = out.interrupted ? least : std::max(space.deadline, least);
  const auto left = [&] {
    return end == Clock::time_point::max() ? std::numeric_limits<double>::infinity()
                                           : std::chrono::duration<double>(end - Clock::now()).count();
  };
  const std::atomic<bool>* stop = out.interrupted ? nullptr : request.stop;  // it was heard
  // A little longer for what is returned to be as good as single moves make it.
  const double climbing = !out.interrupted              ? 0
                          : std::isinf(request.seconds) ? 1
                                                        : std::clamp(0.05 * request.seconds, 0.5, 5.0);
  const auto take = [&](const FasterPlan& f) {
    TERN_CHECK(f.makespan >= out.bound, "plan_model: a plan of {} ps, and none is below {}", f.makespan, out.bound);
    out.best = f.candidate, out.assignment = f.assignment, out.makespan = f.makespan;
    out.plans.emplace_back(f.candidate, f.makespan);
    out.model = std::min(out.model, f.makespan), out.model_bound = std::min(out.model_bound, f.makespan);
  };
  BuiltInstance built;
  int64_t improved = -1;
  for (;;) {
    build_instance(space, space.candidates[static_cast<size_t>(out.best)], built);
    if (!space.pinned.even && improved != out.makespan) {
      const Improved better = improve(built.instance, out.assignment,
                                      {.seconds = std::max({left(), climbing, 0.05}),
                                       .operations = limits_of(request.effort).operations,
                                       .stop = stop});
      improved = better.makespan, out.improved = better.complete;
      if (better.makespan < out.makespan) take({out.best, better.assignment, better.makespan});
    }
    with_room = plan_with_room(space, built.instance, out, std::max(left(), 0.05));
    if (with_room.found && with_room.makespan < out.makespan && price(built.instance, with_room.assignment).fits()) {
      take({out.best, with_room.assignment, with_room.makespan});
      continue;
    }
    AroundPlan around = look_around(space, out, left, stop);
    if (around.faster.candidate < 0) return around;
    take(around.faster);
  }
}

// Its ranks and stages; the peak of all devices in FLOP/s.
double add_ranks(const SpaceOfChoices& space, const Candidate& c, const Priced& priced, const PipelineRun& run,
                 Plan& p) {
  double peak = 0;
  for (int d = 0; d < c.num_stages; ++d) {
    const size_t at = static_cast<size_t>(d);
    const Machine& machine = machine_of_stage(space, c, d);
    p.ranks.push_back({machine.node.name, priced.peak[at], capacity_of(machine), run.busy[at], priced.times.begin[at],
                       priced.times.tail[at]});
    p.price_per_hour += machine.price_per_hour(p.choice.mesh.devices());
    peak += static_cast<double>(p.choice.mesh.devices()) * peak_flops(machine.device, p.job.dtype);
  }
  for (size_t s = 0; s < priced.times.forward.size(); ++s) {
    const PipelineTimes& t = priced.times;
    const bool last = s + 1 == t.forward.size();
    p.stages.push_back(
        {t.forward[s], t.backward[s], t.weight[s], last ? 0 : t.send_forward[s], last ? 0 : t.send_backward[s]});
  }
  return peak;
}

// Restrictions that were asked for.
void add_given(const SpaceOfChoices& space, const PlanRequest& request, Plan& p) {
  PinnedAxes given = request.space.pinned;
  if (given.framework) given.even = false;  // its own, told with its limits
  if (!to_string(given).empty())
    p.restrictions.push_back("given: " + to_string(given) + "; the proof is about choices with these");
  if (request.space.pinned.schedule && p.choice.num_stages == 1)
    p.restrictions.emplace_back("the given schedule says nothing of a plan with one stage, which has none");
  if (request.space.pinned.ulysses && p.choice.mesh.context == 1)
    p.restrictions.emplace_back("the given way of sharing the context says nothing of a plan with one context rank");
  if (space.pinned.framework) p.restrictions.emplace_back(limits_in_words(*space.pinned.framework));
  if (p.choice.micro_batch == request.space.max_micro_batch && p.choice.num_micro % 2 == 0 &&
      !request.space.pinned.micro_batch && !request.space.pinned.micro_batches)
    p.restrictions.push_back(
        fmt::format("the plan takes the largest micro-batch that was looked at, {}: a larger one may be faster "
                    "(--max-micro-batch)",
                    p.choice.micro_batch));
}

// Restrictions of the search itself.
void add_left_out(const SpaceOfChoices& space, const PlanRequest& request, const OuterOutcome& out, Plan& p) {
  if (!out.improved)
    p.restrictions.emplace_back(
        "not every move of a single layer was tried on this plan: one may make it faster (--effort thorough)");
  const std::string_view effort = limits_of(request.effort).name;
  if (out.bound < out.makespan && out.interrupted)
    p.restrictions.emplace_back(
        "the search ended before every choice was looked at as far as --effort goes: with more time (--max-seconds) "
        "the "
        "gap may become smaller, by a faster plan or a better bound");
  else if (out.bound < out.makespan)
    p.restrictions.push_back(
        fmt::format("every choice was looked at as far as --effort {} goes, which leaves the gap: more seconds alone "
                    "change nothing{}",
                    effort, request.effort == SearchEffort::thorough ? "" : "; --effort thorough looks further"));
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
        fmt::format("{} choices of schedules without an exact search: the best of a restricted family of "
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
}

void add_pool(PoolFamily pool, int64_t makespan, Plan& p) {
  if (pool.found && pool.makespan >= makespan) pool.found = false, pool.choice = "", pool.makespan = 0;
  if (pool.columns > 0) {
    p.families.push_back({.feature = "unlike pipelines side by side",
                          .found = pool.found,
                          .choice = pool.choice,
                          .step_ps = pool.makespan,
                          .bound_ps = pool.bound});
    if (!pool.complete)
      p.restrictions.push_back(
          "unlike pipelines side by side: not all were looked at (more than 16 groups of devices or 512 "
          "micro-batches, or the time was over)");
    if (pool.found)
      p.restrictions.push_back("unlike pipelines side by side would be faster (rivals); nothing here runs them yet");
  }
}

}  // namespace

void make_plan(const SpaceOfChoices& space, const Cluster& cluster, const PlanRequest& request, OuterOutcome out,
               PlanAnswer& answer) {
  UniformPlan with_room;
  AroundPlan around = settle(space, request, out, with_room);
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
  const double peak = add_ranks(space, c, priced, run, p);
  p.flops_share = training_flops_per_token(*space.spec, p.job) * p.tokens_per_second() / peak;
  p.bound_ps = out.bound, p.model_ps = out.model, p.model_bound_ps = out.model_bound;
  p.counts = out.counts;
  add_given(space, request, p);
  add_left_out(space, request, out, p);
  p.binds = binding(built.instance, with_room, run, out);
  add_pool(out.pool, out.makespan, p);
  if (around.late)
    p.restrictions.emplace_back(
        "the time was over before all rivals were looked at: their plans may be faster than told");
  for (PlannedFamily& f : around.families) p.families.push_back(std::move(f));
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
  if (!c && !space.nearest.empty())  // at least
    c = &space.nearest.front().second, n.missing_bytes = space.nearest.front().first;
  if (!c) return n;
  const Machine& m = machine_of_stage(space, *c, n.rank);
  n.choice = to_string(choice_of(space, *c)), n.node = m.node.name;
  n.capacity_bytes = capacity_of(m)[static_cast<size_t>(n.tier)];
  return n;
}

}  // namespace tern
