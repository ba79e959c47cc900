// Cost tables of one mesh and micro-batch: the strategies of each kind of layer that none other is as good as.
#include <algorithm>
#include <vector>

#include "plan/legality.h"
#include "planner/outer/tables_impl.h"
#include "spec/recompute.h"

namespace tern {
namespace {

// a is at most b in every way a plan can feel. Less compute leaves more of a synchronisation in the open, a's own and
// what of the layers behind it is still on its way; `ends_earlier`: the device's work ends earlier by as much.
bool dominates(const CostVector& a, const CostVector& b, bool ends_earlier) {
  for (size_t t = 0; t < kTiers; ++t)
    if (a.persistent[t] > b.persistent[t] || a.held[t] > b.held[t]) return false;
  const int64_t slack = std::max({int64_t{0}, gradient_ps(b) - gradient_ps(a), b.weight - a.weight});
  return a.forward <= b.forward && a.recompute + a.backward <= b.recompute + b.backward && a.weight <= b.weight &&
         a.host_forward <= b.host_forward && a.host_backward <= b.host_backward && a.entry_forward <= b.entry_forward &&
         a.entry_backward <= b.entry_backward && a.begin <= b.begin && a.update <= b.update &&
         a.held_weight <= b.held_weight && a.transient <= b.transient &&
         (a.sync + slack <= b.sync || (slack == 0 && a.sync <= b.sync) || (ends_earlier && a.sync == 0 && b.sync == 0));
}

// Of equal numbers the first alone; where orders do not follow the times, none that another is at least as good as.
void keep_undominated(ChoiceTables::Rows& rows, Form form, bool ends_earlier) {
  std::vector<CostVector> cost = std::move(rows.cost[form]);
  std::vector<LayerStrategy> of = std::move(rows.strategy[form]);
  rows.cost[form].clear(), rows.strategy[form].clear();
  const auto covers = [&](const CostVector& a, const CostVector& b) {
    return form == kTimed ? a == b : dominates(a, b, ends_earlier);
  };
  for (size_t i = 0; i < of.size(); ++i) {
    bool kept = true;
    for (size_t j = 0; j < of.size() && kept; ++j)
      kept = j == i || !covers(cost[j], cost[i]) || (covers(cost[i], cost[j]) && i < j);
    if (!kept) continue;
    rows.cost[form].push_back(cost[i]);
    rows.strategy[form].push_back(of[i]);
  }
}

// Chunked pipelines share a device's memory among stages; with three tiers besides, proofs would take minutes. They
// keep everything on the device (SearchSpace says so).
bool chunked_may(const LayerStrategy& s) { return s.states == Tier::device && s.activations == Tier::device; }

std::vector<LayerStrategy> strategies(const SearchSpace& space, const Machine& m) {
  std::vector<LayerStrategy> out;
  for (const int zero : space.zero)
    for (const Recompute recompute : space.recompute)
      for (const Tier states : space.states)
        for (const Tier activations : space.activations) {
          const LayerStrategy s{zero, recompute, states, activations};
          if (why_illegal(m, s).empty()) out.push_back(s);
        }
  return out;
}

void add_counted(int64_t& sum, int64_t ps) { sum = std::min(static_cast<int64_t>(kMostStepPs), sum + ps); }

}  // namespace

void sum_up(ChoiceTables& t, const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    ++t.kinds[static_cast<size_t>(layer.kind)].layers;
    if (t.group == kMixed) {
      double link = 0;
      for (const EdgeCost& e : t.between[static_cast<size_t>(layer.kind)])
        link = std::max(link, static_cast<double>(e.forward + e.backward));
      for (LongestTimes& x : t.longest) x.micro += link;
    }
    for (const Form form : kForms) {
      const std::vector<CostVector>& rows = t.kinds[static_cast<size_t>(layer.kind)].cost[form];
      if (rows.empty()) continue;  // no strategy may be chunked: over_chunks leaves them out
      int64_t compute = INT64_MAX, forward = INT64_MAX, gradient = INT64_MAX, bytes = INT64_MAX, device = INT64_MAX;
      for (const CostVector& c : rows) {
        compute = std::min(compute, c.forward + gradient_ps(c));
        forward = std::min(forward, c.forward), gradient = std::min(gradient, gradient_ps(c));
        bytes =
            std::min(bytes, c.persistent[0] + c.persistent[1] + c.persistent[2] + c.held[0] + c.held[1] + c.held[2]);
        device = std::min(device, c.persistent[0] + c.held[0]);
      }
      add_counted(t.compute[form], compute), add_counted(t.forward[form], forward);
      add_counted(t.gradient[form], gradient);
      t.least_bytes[form] += bytes, t.least_device[form] += device;
    }
  }
  for (const int inside : {0, 1}) {
    t.least_edge[inside] = INT64_MAX;
    for (const EdgeCost& e : t.edge[inside])
      t.least_edge[inside] = std::min(t.least_edge[inside], e.forward + e.backward);
  }
}

ChoiceTables make_tables(const ModelSpec& spec, const TrainJob& job, const SearchSpace& space,
                         const std::vector<Layer>& layers, const std::vector<Machine>& machines, int group,
                         const Mesh& mesh, int64_t micro_batch) {
  ChoiceTables t{.group = group, .mesh = mesh, .micro_batch = micro_batch};
  const Machine& machine = machines[static_cast<size_t>(group)];
  const LayerCosts costs(spec, job, machine, mesh, micro_batch, machines.size() > 1, space.pinned.framework);
  const std::vector<LayerStrategy> all = strategies(space, machine);
  const bool timed = std::any_of(space.schedules.begin(), space.schedules.end(), order_follows_times);
  bool syncs[kForms.size()]{}, host = false;
  std::vector<LayerStrategy> of_form[kForms.size()];
  for (const LayerStrategy& s : all)
    for (const Form form : kForms)
      if (form == kChunked ? chunked_may(s) : form != kTimed || timed) of_form[form].push_back(s);
  for (const Layer& layer : layers) {
    if (layer.kind != static_cast<int>(t.kinds.size())) continue;  // kinds are numbered as they first occur
    ChoiceTables::Rows rows;
    for (const Form form : kForms)
      for (const LayerStrategy& s : of_form[form]) {
        rows.cost[form].push_back(costs.cost(layer, s, form != kWhole));
        rows.strategy[form].push_back(s);
        syncs[form] |= rows.cost[form].back().sync > 0;
        host |= rows.cost[form].back().host_forward + rows.cost[form].back().host_backward > 0;
      }
    t.kinds.push_back(std::move(rows));
    for (const int inside : {0, 1}) t.edge[inside].push_back(costs.edge(layer, inside != 0));
    t.boundary_bytes.push_back(costs.units()[static_cast<size_t>(layer.first + layer.count - 1)].output_bytes);
  }
  for (const Form form : kForms) t.longest[form] = longest_times(costs, layers, of_form[form], form != kWhole);
  // A device's last work ends earlier by what a layer saves if it is one stage's and on no clock but the compute's.
  // Even layers: the same row of every kind is the same strategy.
  if (space.pinned.even) return t;
  for (ChoiceTables::Rows& rows : t.kinds)
    for (const Form form : kForms) keep_undominated(rows, form, !syncs[form] || (form != kChunked && !host));
  return t;
}

}  // namespace tern
