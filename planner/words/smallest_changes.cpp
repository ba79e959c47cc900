#include "planner/words/smallest_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/text.h"
#include "planner/words/plan_again.h"

namespace tern {
namespace {

constexpr int kMostSearches = 120;

// Plans with some of the pinned axes left free, as long as the request's time lasts.
struct FreedSearch {
  const ModelSpec& spec;
  const Cluster& cluster;
  const PlanRequest& request;
  const PinnedAxes& pinned;  // by the user
  const PinnedAxes& all;     // and homes that --offload keeps on the device
  const SearchSpace& wide;   // before pins
  bool states_at_home = false, activations_at_home = false;
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  int searches = 0;

  std::optional<SmallestChange> attempt(const std::vector<std::string>& freed);
};

std::optional<SmallestChange> FreedSearch::attempt(const std::vector<std::string>& freed) {
  const double spent = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (++searches > kMostSearches || spent > request.seconds || is_stopped(request)) return std::nullopt;
  PinnedAxes kept = all;
  for (const std::string& axis : freed) kept = without_axis(kept, axis);
  PlanRequest r = request;
  r.space = pin(wide, kept);
  if (pinned.framework) r.space = for_framework(std::move(r.space), *pinned.framework);
  r.seconds = request.seconds - spent, r.progress = {};
  const PlanAnswer a = plan_again(spec, cluster, r);
  if (!a.found) return std::nullopt;
  const PinnedAxes now = axes_of(a.plan.choice, a.plan.layers);
  SmallestChange change{
      .axes = static_cast<int>(freed.size()), .words = {}, .pins = {}, .offload = {}, .step_ps = a.plan.step_ps};
  std::vector<std::string> words;
  bool moves_states = !states_at_home && !pinned.states,
       moves_activations = !activations_at_home && !pinned.activations;
  for (const std::string& axis : freed) {
    if ((axis == "states" && states_at_home) || (axis == "activations" && activations_at_home)) {
      if (axis_value(now, axis) == axis_value(all, axis)) return std::nullopt;
      (axis == "states" ? moves_states : moves_activations) = true;
      change.offload = moves_states && moves_activations ? "all" : axis;
      continue;
    }
    const std::string before = axis_value(all, axis), after = axis_value(now, axis);
    if (before == after) return std::nullopt;  // one axis fewer was enough
    // Layers that differ have no value that could be pinned.
    words.push_back(after.empty() && axis != "layers"
                        ? fmt::format("drop {}={}", axis, before)
                        : fmt::format("{}={} → {}", axis, before, after.empty() ? "uneven" : after));
    kept = with_axis(kept, now, axis);
  }
  if (!change.offload.empty()) words.push_back("--offload " + change.offload);
  change.words = join(words, ", ");
  if (states_at_home) kept = without_axis(kept, "states");
  if (activations_at_home) kept = without_axis(kept, "activations");
  change.pins = to_string(kept);
  return change;
}

}  // namespace

std::vector<SmallestChange> smallest_changes(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                             const SearchSpace& base, const PinnedAxes& pinned) {
  // Homes that nobody pinned and --offload keeps on the device.
  const bool states_at_home = !pinned.states && base.states == std::vector{Tier::device};
  const bool activations_at_home = !pinned.activations && base.activations == std::vector{Tier::device};
  PinnedAxes all = pinned;
  if (states_at_home) all.states = Tier::device;
  if (activations_at_home) all.activations = Tier::device;
  SearchSpace wide = base;
  const SearchSpace homes;
  if (all.states) wide.states = homes.states;
  if (all.activations) wide.activations = homes.activations;
  FreedSearch search{spec, cluster, request, pinned, all, wide, states_at_home, activations_at_home};
  const std::vector<std::string> axes = axes_given(all);
  std::vector<SmallestChange> singles, pairs;
  for (const std::string& axis : axes)
    if (auto c = search.attempt({axis})) singles.push_back(std::move(*c));
  const auto faster = [](const SmallestChange& a, const SmallestChange& b) { return a.step_ps < b.step_ps; };
  std::stable_sort(singles.begin(), singles.end(), faster);
  for (size_t i = 0; i < axes.size(); ++i)
    for (size_t j = i + 1; j < axes.size(); ++j)
      if (auto c = search.attempt({axes[i], axes[j]}); c && (singles.empty() || c->step_ps < singles.front().step_ps))
        pairs.push_back(std::move(*c));
  std::stable_sort(pairs.begin(), pairs.end(), faster);
  singles.insert(singles.end(), pairs.begin(), pairs.end());
  return singles;
}

}  // namespace tern
