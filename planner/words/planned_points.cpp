#include "planner/words/planned_points.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "planner/words/plan_again.h"

namespace tern {
namespace {

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
      points.push_back(is_stopped(request) ? not_searched(nodes) : point(nodes, plan_again(spec, fewer, request)));
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
    points.push_back(is_stopped(request) ? not_searched(batch) : point(batch, plan_again(spec, cluster, r)));
  }
  mark_front(points, [](const PlannedPoint& p) {
    return std::array{static_cast<double>(p.step_ps), -p.tokens_per_second};
  });
  return points;
}

}  // namespace tern
