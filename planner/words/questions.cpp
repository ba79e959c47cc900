#include "planner/words/questions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace tern {
namespace {

constexpr double kMore = 1.1;
constexpr int64_t kMoreBytes = 1'000'000'000;
constexpr int kMostSearches = 120;

// found: false where it is not legal, does not fit, or was not found.
PlanAnswer planned(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  try {
    return plan_model(spec, cluster, request);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
  }
  return {};
}

bool stopped(const PlanRequest& r) { return r.stop && *r.stop; }

PlannedPoint point(int64_t asked, const PlanAnswer& a) {
  PlannedPoint out{.asked = asked, .found = a.found, .cut = a.interrupted};
  if (!a.found) return out;
  out.devices = a.plan.choice.devices(), out.step_ps = a.plan.step_ps;
  out.tokens_per_second = a.plan.tokens_per_second();
  out.price_per_hour = a.plan.price_per_hour, out.choice = to_string(a.plan.choice);
  return out;
}
PlannedPoint not_searched(int64_t asked) { return {.asked = asked, .searched = false, .cut = true}; }

// front: no other found point is at least as good in every number, and better in one.
template <class Numbers>
void mark_front(std::vector<PlannedPoint>& points, const Numbers& numbers) {
  if (!all_searched(points)) return;
  for (PlannedPoint& a : points)
    a.front = a.found && std::none_of(points.begin(), points.end(), [&](const PlannedPoint& b) {
                if (!b.found || &a == &b) return false;
                const auto x = numbers(a), y = numbers(b);
                bool no_worse = true, better = false;
                for (size_t i = 0; i < x.size(); ++i) no_worse &= y[i] <= x[i], better |= y[i] < x[i];
                return no_worse && better;
              });
}

}  // namespace

std::vector<ShadowPrice> shadow_prices(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                       const Plan& plan) {
  std::vector<ShadowPrice> out;
  const auto ask = [&](std::string what, const auto& change) {
    Cluster more = cluster;
    change(more);
    ShadowPrice price{std::move(what), plan.step_ps, to_string(plan.choice)};
    price.cut = stopped(request);
    if (!price.cut) {
      const PlanAnswer a = planned(spec, more, request);
      price.cut = a.interrupted;
      if (a.found && a.plan.step_ps < plan.step_ps)
        price.step_ps = a.plan.step_ps, price.choice = to_string(a.plan.choice);
    }
    out.push_back(std::move(price));
  };
  ask("1 GB more memory per device", [](Cluster& c) {
    for (DeviceType& d : c.devices) d.memory_bytes += kMoreBytes;
  });
  ask("links inside a node 10 % faster", [](Cluster& c) {
    for (NodeType& n : c.nodes) n.link.bandwidth *= kMore;
  });
  int64_t nodes = 0;
  for (const NodeGroup& g : cluster.groups) nodes += g.count;
  if (nodes > 1)
    ask("network between nodes 10 % faster", [](Cluster& c) {
      for (NodeType& n : c.nodes) n.network *= kMore;
    });
  ask("products 10 % faster", [](Cluster& c) {
    for (DeviceType& d : c.devices)
      for (auto& [dtype, flops] : d.peak) flops *= kMore;
  });
  ask("memory of the device 10 % faster", [](Cluster& c) {
    for (DeviceType& d : c.devices) d.memory_bandwidth *= kMore;
  });
  if (request.space.states.size() + request.space.activations.size() > 2)
    ask("links to the host 10 % faster", [](Cluster& c) {
      for (NodeType& n : c.nodes) n.host_link_bandwidth *= kMore;
    });
  return out;
}

std::vector<int64_t> doubling(int64_t first, int64_t last) {
  std::vector<int64_t> out;
  for (int64_t n = first; n < last; n *= 2) out.push_back(n);
  out.push_back(last);
  return out;
}

bool all_searched(const std::vector<PlannedPoint>& points) {
  return std::none_of(points.begin(), points.end(), [](const PlannedPoint& p) { return p.cut; });
}

std::vector<PlannedPoint> plan_node_counts(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                           const PlanAnswer& whole) {
  if (cluster.groups.size() != 1)
    throw Error(ErrorKind::usage, "plan: --pareto takes fewer and fewer nodes of one type; '{}' has several",
                cluster.name);
  std::vector<PlannedPoint> points;
  const int64_t all = cluster.groups[0].count;
  for (const int64_t nodes : doubling(1, all)) {
    Cluster fewer = cluster;
    fewer.groups[0].count = nodes;
    if (nodes == all)
      points.push_back(point(nodes, whole));
    else
      points.push_back(stopped(request) ? not_searched(nodes) : point(nodes, planned(spec, fewer, request)));
  }
  mark_front(points, [](const PlannedPoint& p) {
    return std::array{static_cast<double>(p.devices), static_cast<double>(p.step_ps), p.price_per_million_tokens()};
  });
  return points;
}

std::vector<PlannedPoint> plan_batches(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                       const std::vector<int64_t>& batches) {
  std::vector<PlannedPoint> points;
  for (const int64_t batch : batches) {
    PlanRequest r = request;
    r.job.batch = batch;
    points.push_back(stopped(request) ? not_searched(batch) : point(batch, planned(spec, cluster, r)));
  }
  mark_front(points, [](const PlannedPoint& p) {
    return std::array{static_cast<double>(p.step_ps), -p.tokens_per_second};
  });
  return points;
}

namespace {

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
  if (++searches > kMostSearches || spent > request.seconds || stopped(request)) return std::nullopt;
  PinnedAxes kept = all;
  for (const std::string& axis : freed) kept = without_axis(kept, axis);
  PlanRequest r = request;
  r.space = pin(wide, kept);
  if (pinned.framework) r.space = for_framework(std::move(r.space), *pinned.framework);
  r.seconds = request.seconds - spent, r.progress = {};
  const PlanAnswer a = planned(spec, cluster, r);
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
