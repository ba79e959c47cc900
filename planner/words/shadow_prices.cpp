#include "planner/words/shadow_prices.h"

#include <algorithm>

#include "planner/words/plan_again.h"

namespace tern {
namespace {

constexpr double kMore = 1.1;
constexpr int64_t kMoreBytes = 1'000'000'000;

}  // namespace

std::vector<ShadowPrice> shadow_prices(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request,
                                       const Plan& plan) {
  std::vector<ShadowPrice> out;
  const auto ask = [&](std::string what, const auto& change) {
    Cluster more = cluster;
    change(more);
    ShadowPrice price{std::move(what), plan.step_ps, to_string(plan.choice)};
    price.cut = is_stopped(request);
    if (!price.cut) {
      const PlanAnswer a = plan_again(spec, more, request);
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

}  // namespace tern
