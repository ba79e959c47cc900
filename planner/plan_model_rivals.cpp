// Why not another: the choices that share a feature the best plan has not, and those next to it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include "base/text.h"
#include "planner/plan_model_impl.h"
#include "planner/search.h"

namespace tern {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr size_t kTriedOfFamily = 6;  // choices
constexpr size_t kValuesPerFeature = 8;
constexpr double kLateSeconds = 0.1;  // of one neighbour's search, where the plan's own was cut short
constexpr double kNoLimit = std::numeric_limits<double>::infinity();
constexpr double kNear = 0.05;  // a choice next to the plan is told where its step is at most so much longer

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
std::vector<Family> of_feature(const SpaceOfChoices& space, const OuterOutcome& out, const Feature& feature) {
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

// What one step in one direction leads to: the micro-batch halved or doubled, another schedule, or a factor of two from
// one axis of the mesh or pipeline to another. "" for every other choice, else the step in words.
std::string step_between(const OuterChoice& from, const OuterChoice& to) {
  const std::array<std::pair<const char*, std::pair<int64_t, int64_t>>, 4> axes{
      {{"tensor", {from.mesh.tensor, to.mesh.tensor}},
       {"context", {from.mesh.context, to.mesh.context}},
       {"data", {from.mesh.data, to.mesh.data}},
       {"stages", {from.num_stages, to.num_stages}}}};
  if (from.mesh.expert != to.mesh.expert) return "";
  const bool same_way = to.mesh.context == 1 || from.mesh.context == 1 || from.mesh.ulysses == to.mesh.ulysses;
  const bool same_schedule = (from.schedule == to.schedule && from.chunks_per_stage == to.chunks_per_stage) ||
                             from.num_stages == 1 || to.num_stages == 1;
  const bool same_micro = from.micro_batch == to.micro_batch;
  const char *gives = nullptr, *takes = nullptr;
  for (const auto& [name, sizes] : axes) {
    const auto [before, after] = sizes;
    if (before == after) continue;
    const char*& side = after == 2 * before ? takes : gives;
    if (side || (after != 2 * before && before != 2 * after)) return "";
    side = name;
  }
  if (gives && takes) return same_way && same_schedule && same_micro ? fmt::format("{} → {}", gives, takes) : "";
  if (gives || takes || from.mesh.expert_tensor != to.mesh.expert_tensor) return "";
  if (from.mesh.ulysses != to.mesh.ulysses) return same_schedule && same_micro ? "context's way" : "";
  if (!same_schedule) return same_micro ? "schedule" : "";
  if (to.micro_batch == 2 * from.micro_batch || from.micro_batch == 2 * to.micro_batch) return "micro-batch";
  return "";
}

// Choices one step from the best plan that come close to it: families of one, as no other row need name them.
std::vector<PlannedFamily> neighbours_of(const SpaceOfChoices& space, const OuterOutcome& out,
                                         const std::function<bool()>& late) {
  const Candidate& best = space.candidates[static_cast<size_t>(out.best)];
  const OuterChoice chosen = choice_of(space, best);
  const auto near = static_cast<int64_t>((1 + kNear) * static_cast<double>(out.makespan));
  std::vector<PlannedFamily> list;
  BuiltInstance built;
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    const Candidate& c = space.candidates[i];
    if (any_order(space, c) || out.bounds[i] > near || nodes_of(space, c) != nodes_of(space, best)) continue;
    const std::string step = step_between(chosen, choice_of(space, c));
    if (step.empty()) continue;
    Family f;
    f.members.push_back(static_cast<int>(i));
    for (const auto& [index, makespan] : out.plans)
      if (index == static_cast<int>(i) && (!f.told.found || makespan < f.told.step_ps))
        f.plan = index, f.told.step_ps = makespan, f.told.found = true;
    find_plan(space, out, f, late);
    if (!space.pinned.even && !late()) {
      build_instance(space, c, built);
      const SearchResult r =
          search(built.instance, {.upper_bound = f.told.found ? std::min(f.told.step_ps, near + 1) : near + 1,
                                  .seconds = out.interrupted ? kLateSeconds : kNoLimit,
                                  .simulations = 30,
                                  .labels = 10'000});
      if (r.found && (!f.told.found || r.makespan_ps < f.told.step_ps)) {
        f.told.found = true, f.told.step_ps = r.makespan_ps;
        f.told.choice = to_string(choice_of(space, c));
      }
    }
    if (!f.told.found || f.told.step_ps > near) continue;
    f.told.feature = "neighbour: " + step, f.told.bound_ps = out.bounds[i];
    list.push_back(std::move(f.told));
  }
  std::stable_sort(list.begin(), list.end(),
                   [](const PlannedFamily& a, const PlannedFamily& b) { return a.step_ps < b.step_ps; });
  return list;
}

}  // namespace

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

std::vector<PlannedFamily> families_of(const SpaceOfChoices& space, const OuterOutcome& out,
                                       const std::function<bool()>& late) {
  std::vector<PlannedFamily> list;
  for (const Feature& feature : features())
    for (Family& f : of_feature(space, out, feature)) {
      find_plan(space, out, f, late);
      list.push_back(std::move(f.told));
    }
  for (PlannedFamily& f : neighbours_of(space, out, late)) list.push_back(std::move(f));
  return list;
}

}  // namespace tern
