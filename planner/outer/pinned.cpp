// What is pinned: the space that it leaves, the assignments of even layers, and what to say of pins that cannot be.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "plan/legality.h"
#include "planner/instance/price.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

template <class T>
void raise(T& most, const std::optional<int64_t>& to) {
  if (to) most = std::max(most, static_cast<T>(*to));
}
template <class T>
void keep(std::vector<T>& list, const std::optional<T>& one) {
  if (one) list = {*one};
}

// Chunks and schedule as they are pinned, where the pins alone are at odds.
std::string broken_pipeline(const PinnedAxes& p, bool many_stages) {
  if (!p.chunks) return "";
  const int64_t v = *p.chunks;
  if (p.stages == int64_t{1} && v != 1) return fmt::format("chunks={}: one stage has one chunk", v);
  if (!p.schedule || !many_stages) return "";
  if (v < least_chunks(*p.schedule)) return fmt::format("chunks={}: {} has two at least", v, name_of(*p.schedule));
  return why_illegal_schedule(*p.schedule, 1, v, 1);
}

// Alone: what is not pinned is 1, the easiest to divide by. The ranks that experts share are known only with the mesh.
Mesh pinned_mesh(const PinnedAxes& p) {
  Mesh mesh{.tensor = p.tensor.value_or(1),
            .context = p.context.value_or(1),
            .data = p.data.value_or(1),
            .ulysses = p.context.value_or(1) > 1 && p.ulysses.value_or(false)};
  const bool whole_mesh = p.tensor && p.context && p.data;
  if (whole_mesh) mesh.expert = p.expert.value_or(1), mesh.expert_tensor = p.expert_tensor.value_or(1);
  return mesh;
}

std::string broken_experts(const PinnedAxes& p, const ModelSpec& spec) {
  int64_t experts = 0;
  for (const Unit& u : spec.units)
    if (const auto* e = std::get_if<MoeSpec>(&u.spec)) experts = e->experts;
  if (!experts && (p.expert.value_or(1) > 1 || p.expert_tensor.value_or(1) > 1))
    return "ep and etp: the model has no experts";
  if (experts && p.expert && experts % *p.expert)
    return fmt::format("ep={}: does not divide {} experts", *p.expert, experts);
  return "";
}

}  // namespace

SearchSpace pin(SearchSpace s, const PinnedAxes& p) {
  s.pinned = p;
  raise(s.max_tensor, p.tensor), raise(s.max_context, p.context), raise(s.max_expert, p.expert);
  raise(s.max_stages, p.stages), raise(s.max_chunks, p.chunks), raise(s.max_micro_batch, p.micro_batch);
  keep(s.schedules, p.schedule), keep(s.zero, p.zero), keep(s.recompute, p.recompute);
  keep(s.states, p.states), keep(s.activations, p.activations);
  return s;
}

SearchSpace for_framework(SearchSpace s, Framework f) {
  s.pinned.framework = f, s.pinned.even = true;
  return s;
}

EvenPlan even_plan(const SpaceOfChoices& space, const Candidate& c, const Instance& instance) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const size_t strategies = t.kinds.front().strategy[form_of(c)].size();
  EvenPlan out{.missing_bytes = kNever};
  Pricer pricer(instance);
  Assignment a{even_stages(*space.spec, space.layers, c.num_stages * c.chunks), {}};
  for (size_t k = 0; k < strategies && !space.late(); ++k) {
    const LayerStrategy& strategy = t.kinds.front().strategy[form_of(c)][k];
    if (space.pinned.framework && !why_not_run(*space.pinned.framework, choice_of(space, c), strategy).empty())
      continue;
    a.strategy.assign(space.layers.size(), static_cast<int>(k));
    const Priced priced = pricer(a);
    if (priced.fits()) {
      if (!out.plan.found || priced.makespan < out.plan.makespan) out.plan = {true, a, priced.makespan};
    } else if (priced.missing_bytes < out.missing_bytes) {
      out.missing_bytes = priced.missing_bytes, out.tier = priced.tier, out.rank = priced.device;
    }
  }
  return out;
}

std::vector<std::string> broken_pins(const SpaceOfChoices& space, const SearchSpace& asked) {
  const PinnedAxes& p = asked.pinned;
  const ModelSpec& spec = *space.spec;
  std::vector<std::string> out;
  const auto add = [&](const std::string& why) {
    if (!why.empty() && std::find(out.begin(), out.end(), why) == out.end()) out.push_back(why);
  };
  const Mesh mesh = pinned_mesh(p);
  add(broken_experts(p, spec));
  std::vector<std::string> of_machines;
  int64_t most = 0;
  for (const Machine& m : space.machines) {
    const std::string rule = why_illegal(spec, space.job, m, mesh, p.micro_batch.value_or(1));
    if (!rule.empty()) of_machines.push_back(rule);
    most = std::max(most, usable_devices(m, mesh));
  }
  if (out.empty() && of_machines.size() == space.machines.size()) add(of_machines.front());
  const int64_t devices = mesh.devices() * p.stages.value_or(1);
  if (devices > most)
    add(fmt::format("{} devices (tp {} × cp {} × dp {} × pp {}): {} of one type can be used in groups of {}", devices,
                    mesh.tensor, mesh.context, mesh.data, p.stages.value_or(1), most, mesh.tensor * mesh.context));
  // The batch.
  const int64_t sequences = mesh.data * p.micro_batch.value_or(1) * p.micro_batches.value_or(1);
  const bool all = p.data && p.micro_batch && p.micro_batches;
  if (out.empty() && (all ? sequences != space.job.batch : space.job.batch % sequences != 0))
    add(fmt::format("dp {} × micro-batch {} × micro-batches {}: {} a batch of {}", mesh.data, p.micro_batch.value_or(1),
                    p.micro_batches.value_or(1), all ? "is not" : "does not divide", space.job.batch));
  // The pipeline.
  const int64_t layers = static_cast<int64_t>(space.layers.size()), stages = p.stages.value_or(1);
  add(broken_pipeline(p, stages > 1));
  if (stages * p.chunks.value_or(1) > layers)
    add(fmt::format("pp={}: {} chunks each are more than the {} layers", stages, p.chunks.value_or(1), layers));
  if (p.even && out.empty()) {
    const OuterChoice c{.num_stages = static_cast<int>(stages),
                        .chunks_per_stage = static_cast<int>(p.chunks.value_or(1))};
    PinnedAxes even;
    even.even = true;
    add(why_not_pinned(even, space.job, c, space.layers, spec, 1));
  }
  if (p.framework && out.empty()) {
    OuterChoice c{
        .mesh = mesh, .num_stages = static_cast<int>(stages), .schedule = p.schedule.value_or(kOneStageSchedule)};
    for (const Machine& m : space.machines) add(why_not_run(*p.framework, space.job, c, m.node.num_devices));
  }
  if (out.empty() && p.schedule && p.micro_batches && stages > 1)
    add(why_illegal_schedule(*p.schedule, stages, least_chunks(*p.schedule), *p.micro_batches));
  if (out.empty() && p.micro_batches && stages > 1 &&
      int64_t{3} * stages * p.chunks.value_or(1) * *p.micro_batches > kMostOperations)
    add(fmt::format("micro-batches={}: more than {} operations are not simulated", *p.micro_batches, kMostOperations));
  if (out.empty()) {
    out = {"each axis alone is possible, no choice has them all"};
    out.insert(out.end(), space.rules.begin(), space.rules.begin() + std::min<ptrdiff_t>(2, std::ssize(space.rules)));
  }
  return out;
}

}  // namespace tern
