// Why not another: the choices that share a feature the best plan has not, and those next to it.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/text.h"
#include "plan/plan_axes.h"
#include "planner/instance/improve.h"
#include "planner/instance/search.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/around_plan_impl.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

constexpr size_t kTriedOfFamily = 6;  // choices
constexpr size_t kValuesPerFeature = 8;
constexpr int64_t kClimb = 2'000'000;  // operations simulated to improve a family's plan
constexpr double kNear = 0.05;  // a choice next to the plan is named where its step is longer by this share at most

// A schedule with what tells its choices apart.
std::string schedule_words(const OuterChoice& c) {
  return traits_of(c.schedule).chunks == ChunkRule::several
             ? fmt::format("{} × {}", name_of(c.schedule), c.chunks_per_stage)
             : std::string(name_of(c.schedule));
}

struct Feature {
  std::string name;
  std::function<std::string(const SpaceOfChoices&, const Candidate&, const OuterChoice&)> value;
};

// An axis alone, or with the one that says how it is used: context, expert, schedule.
Feature feature_of(const PlanAxis& axis) {
  const PlanAxis* a = &axis;  // of a table that stays
  return {std::string(axis.words), [a](const auto&, const auto&, const OuterChoice& c) {
            if (a->key == "schedule") return c.num_stages == 1 ? std::string("none") : schedule_words(c);
            if (a->key == "expert") return fmt::format("{} × {}", c.mesh.expert, c.mesh.expert_tensor);
            std::string text = a->text(a->get({c, {}}));
            if (a->key == "context" && c.mesh.context > 1) text += c.mesh.ulysses ? " ulysses" : " ring";
            return text;
          }};
}

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = [] {
    std::vector<Feature> list{{"nodes", [](const SpaceOfChoices& space, const Candidate& c, const OuterChoice&) {
                                 return nodes_of(space, c);
                               }}};
    for (const std::string_view key : {"schedule", "stages"})
      for (const PlanAxis& a : plan_axes())
        if (a.key == key) list.push_back(feature_of(a));
    for (const PlanAxis& a : plan_axes())
      if (a.part == PlanAxis::Part::mesh && a.key != "context_by" && a.key != "expert_tensor")
        list.push_back(feature_of(a));
    return list;
  }();
  return all;
}

std::string value_of(const SpaceOfChoices& space, const Feature& feature, size_t candidate) {
  const Candidate& c = space.candidates[candidate];
  return feature.value(space, c, choice_of(space, c));
}

struct Family {
  PlannedFamily told;
  std::string value;         // of its feature
  std::vector<int> members;  // candidates
  int cheapest = -1;         // of them: least bound
};

// Looks around the best plan, and keeps every plan that it sees.
class Look {
 public:
  Look(const SpaceOfChoices& space, const OuterOutcome& out, const std::function<double()>& left,
       const std::atomic<bool>* stop)
      : space_(space), out_(out), left_(left), stop_(stop), seen_(out.plans) {
    faster_.makespan = out.makespan;
  }

  // Families of one feature that the best plan does not belong to, those with the least bounds first.
  std::vector<Family> families_of(const Feature& feature) const {
    std::map<std::string, Family> by_value;
    const std::string chosen = value_of(space_, feature, static_cast<size_t>(out_.best));
    for (size_t i = 0; i < space_.candidates.size(); ++i) {
      if (any_order(space_, space_.candidates[i])) continue;
      const std::string value = value_of(space_, feature, i);
      if (value == chosen) continue;
      Family& f = by_value[value];
      f.members.push_back(static_cast<int>(i));
      if (f.cheapest < 0 || bound(static_cast<int>(i)) < bound(f.cheapest)) f.cheapest = static_cast<int>(i);
    }
    std::vector<Family> list;
    for (auto& [value, f] : by_value) {
      f.value = value;
      f.told.feature = fmt::format("{} {}", feature.name, value);
      f.told.bound_ps = bound(f.cheapest);
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

  // Plans of the most promising choices of a family. The family's bound says how much better its very best may be.
  void try_family(Family& f) {
    const size_t tried = std::min(kTriedOfFamily, f.members.size());
    std::partial_sort(f.members.begin(), f.members.begin() + static_cast<std::ptrdiff_t>(tried), f.members.end(),
                      [&](int a, int b) { return std::pair(bound(a), a) < std::pair(bound(b), b); });
    int64_t best = kNever;
    int of = -1;
    for (size_t i = 0; i < tried && bound(f.members[i]) < best; ++i)
      if (const int64_t makespan = try_choice(f.members[i]); makespan < best) best = makespan, of = f.members[i];
    if (of >= 0) climb(of);
    f.members.clear();
  }

  // The makespan of the best plan of one choice that little effort gives: one strategy everywhere, and every layer as
  // fast as memory lets it be. kNever: none was found, or it is late. Each choice is tried once.
  int64_t try_choice(int index) {
    if (const auto known = tried_.find(index); known != tried_.end()) return known->second;
    if (late()) return kNever;
    const Candidate& c = space_.candidates[static_cast<size_t>(index)];
    build_instance(space_, c, built_);
    const int64_t makespan = space_.pinned.even ? keep(index, even_plan(space_, c, built_.instance).plan)
                                                : std::min(keep(index, uniform_plan(space_, c, built_)),
                                                           keep(index, repaired_plan(space_, c, built_, kNever)));
    return tried_[index] = makespan;
  }
  // The best plan that was tried of a choice, improved one layer at a time: each choice once.
  void climb(int index) {
    const auto plan = plans_.find(index);
    if (space_.pinned.even || plan == plans_.end() || late()) return;
    build_instance(space_, space_.candidates[static_cast<size_t>(index)], built_);
    const Improved better = improve(built_.instance, std::move(plan->second.assignment),
                                    {.seconds = left_(), .operations = kClimb, .stop = stop_});
    plans_.erase(plan);
    keep(index, {true, better.assignment, better.makespan});
  }
  // The same with a search, for plans below `upper_bound`.
  int64_t search_choice(int index, int64_t upper_bound) {
    const int64_t tried = try_choice(index);
    if (space_.pinned.even || late()) return tried;
    build_instance(space_, space_.candidates[static_cast<size_t>(index)], built_);
    const SearchResult r = search(built_.instance, {.upper_bound = std::min(tried, upper_bound),
                                                    .seconds = left_(),
                                                    .simulations = 30,
                                                    .labels = 10'000,
                                                    .stop = stop_});
    return std::min(tried, keep(index, {r.found, r.assignment, r.makespan_ps}));
  }

  // The best that was seen of each family, whatever it was looked at for.
  void tell(const Feature& feature, std::vector<Family>& families) const {
    std::map<std::string, std::pair<int64_t, int>> best;
    for (const auto& [index, makespan] : seen_) {
      const auto [at, first] = best.try_emplace(value_of(space_, feature, static_cast<size_t>(index)), makespan, index);
      if (!first && makespan < at->second.first) at->second = {makespan, index};
    }
    for (Family& f : families)
      if (const auto at = best.find(f.value); at != best.end()) tell(f.told, at->second.second, at->second.first);
  }
  void tell(PlannedFamily& f, int index, int64_t makespan) const {
    f.found = true, f.step_ps = makespan;
    f.choice = to_string(choice_of(space_, space_.candidates[static_cast<size_t>(index)]));
  }

  int64_t bound(int index) const { return out_.bounds[static_cast<size_t>(index)]; }
  int64_t least_seen(int index) const {
    int64_t least = kNever;
    for (const auto& [seen, makespan] : seen_)
      if (seen == index) least = std::min(least, makespan);
    return least;
  }
  FasterPlan faster() && { return std::move(faster_); }
  bool was_late() const { return was_late_; }

 private:
  bool late() { return was_late_ = was_late_ || left_() <= 0 || (stop_ && *stop_); }
  int64_t keep(int index, const UniformPlan& plan) {
    if (!plan.found) return kNever;
    seen_.emplace_back(index, plan.makespan);
    if (const auto [at, first] = plans_.try_emplace(index, plan); !first && plan.makespan < at->second.makespan)
      at->second = plan;
    if (plan.makespan < faster_.makespan) faster_ = {index, plan.assignment, plan.makespan};
    return plan.makespan;
  }

  const SpaceOfChoices& space_;
  const OuterOutcome& out_;
  const std::function<double()>& left_;
  const std::atomic<bool>* stop_;
  bool was_late_ = false;
  std::map<int, int64_t> tried_;      // makespans
  std::map<int, UniformPlan> plans_;  // the best of each choice that was tried and not improved
  BuiltInstance built_;
  std::vector<std::pair<int, int64_t>> seen_;  // candidate, makespan
  FasterPlan faster_;
};

// What one step leads to: the micro-batch or the experts' ranks halved or doubled, another schedule, another way of
// sharing the context, or a factor of two from one axis of the mesh or pipeline to another. "" for every other choice,
// else the step in words.
std::string step_between(const OuterChoice& from, const OuterChoice& to) {
  const Mesh &a = from.mesh, &b = to.mesh;
  const auto twice = [](int64_t x, int64_t y) { return x == 2 * y || y == 2 * x; };
  const std::string way = b.context > 1 ? b.ulysses ? " (ulysses)" : " (ring)" : "";
  std::vector<std::string> steps;
  const char *gives = nullptr, *takes = nullptr;
  int moved = 0;
  for (const auto& [name, before, after] : {std::tuple<const char*, int64_t, int64_t>{"tensor", a.tensor, b.tensor},
                                            {"context", a.context, b.context},
                                            {"data", a.data, b.data},
                                            {"stages", from.num_stages, to.num_stages}}) {
    if (before == after) continue;
    if (!twice(before, after)) return "";
    (after > before ? takes : gives) = name, ++moved;
  }
  if (moved > 0) {
    if (moved != 2 || !gives || !takes) return "";
    steps.push_back(fmt::format("{} → {}{}", gives, takes, a.context != b.context ? way : ""));
  }
  const bool both_contexts = a.context > 1 && b.context > 1, both_pipelines = from.num_stages > 1 && to.num_stages > 1;
  if (both_contexts && a.ulysses != b.ulysses) steps.push_back("context" + way);
  if (both_pipelines && (from.schedule != to.schedule || from.chunks_per_stage != to.chunks_per_stage))
    steps.push_back(schedule_words(to));
  if (from.micro_batch != to.micro_batch) {
    if (!twice(from.micro_batch, to.micro_batch)) return "";
    steps.push_back(fmt::format("micro-batch {}", to.micro_batch));
  }
  const bool follow = a.expert_tensor == a.tensor && b.expert_tensor == b.tensor;  // experts cut as all else is
  if (a.expert != b.expert || (a.expert_tensor != b.expert_tensor && !follow)) {
    if ((a.expert != b.expert && !twice(a.expert, b.expert)) ||
        (a.expert_tensor != b.expert_tensor && !twice(a.expert_tensor, b.expert_tensor)))
      return "";
    steps.push_back(fmt::format("expert {} × {}", b.expert, b.expert_tensor));
  }
  return steps.size() == 1 ? steps.front() : "";
}

// Choices one step from the best plan that come close to it: families of one, as no other row need name them.
std::vector<PlannedFamily> neighbours_of(const SpaceOfChoices& space, const OuterOutcome& out, Look& look) {
  const Candidate& best = space.candidates[static_cast<size_t>(out.best)];
  const OuterChoice chosen = choice_of(space, best);
  const auto near = static_cast<int64_t>((1 + kNear) * static_cast<double>(out.makespan));
  std::vector<PlannedFamily> list;
  for (size_t i = 0; i < space.candidates.size(); ++i) {
    const Candidate& c = space.candidates[i];
    const auto index = static_cast<int>(i);
    if (look.bound(index) > near || any_order(space, c)) continue;
    const std::string step = step_between(chosen, choice_of(space, c));
    if (step.empty() || nodes_of(space, c) != nodes_of(space, best)) continue;
    const int64_t makespan = std::min(look.least_seen(index), look.search_choice(index, near + 1));
    if (makespan > near) continue;
    PlannedFamily& f = list.emplace_back();
    f.feature = "neighbour: " + step, f.bound_ps = look.bound(index);
    look.tell(f, index, makespan);
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

AroundPlan look_around(const SpaceOfChoices& space, const OuterOutcome& out, const std::function<double()>& left,
                       const std::atomic<bool>* stop) {
  Look look(space, out, left, stop);
  const std::vector<PlannedFamily> neighbours = neighbours_of(space, out, look);
  std::vector<std::vector<Family>> by_feature;
  for (const Feature& feature : features())
    for (Family& f : by_feature.emplace_back(look.families_of(feature))) look.try_family(f);
  AroundPlan around;
  for (size_t i = 0; i < by_feature.size(); ++i) {
    look.tell(features()[i], by_feature[i]);
    for (Family& f : by_feature[i]) around.families.push_back(std::move(f.told));
  }
  around.families.insert(around.families.end(), neighbours.begin(), neighbours.end());
  around.late = look.was_late();
  around.faster = std::move(look).faster();
  return around;
}

}  // namespace tern
