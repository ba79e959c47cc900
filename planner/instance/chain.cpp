#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "planner/instance/chain_impl.h"
#include "planner/instance/price.h"
#include "program/pipeline.h"

namespace tern {
namespace {

BoundKind kind_of(const Instance& in, Objective objective) {
  if (objective == Objective::simple) return BoundKind::simple;
  const PipelineScheduleTraits& t = traits_of(in.schedule);
  if (t.chunks != ChunkRule::one) return BoundKind::chunked;
  if (t.in_flight == InFlight::all) return BoundKind::gpipe;
  if (t.order_follows_times) return BoundKind::zero_bubble;
  return fills_first(in.schedule) && t.steady ? BoundKind::one_f_one_b : BoundKind::chunked;
}

OptionCost unit_cost(const CostVector& c, int strategy, bool split, bool one_stage, const bool* has_tier) {
  OptionCost u{.strategy = strategy,
               .forward = c.forward,
               .backward = c.backward + c.recompute + (split ? 0 : c.weight),
               .weight = split ? c.weight : 0,
               .host_forward = c.host_forward,
               .host_backward = c.host_backward,
               .begin = c.begin,
               .sync = c.sync,
               .update = c.update,
               .persistent = c.persistent,
               .held = c.held,
               .held_weight = split ? c.held_weight : 0,
               .transient = c.transient};
  u.last_gradient = split ? c.weight : u.backward;
  // With one stage what comes before the step and what comes after it are the same to the makespan.
  if (one_stage) u.update += std::exchange(u.begin, 0);
  for (int t = 1; t < kTiers; ++t)
    if (!has_tier[t]) u.persistent[t] = u.held[t] = 0;
  return u;
}

// Less time in the backward lets the gradient link drain less meanwhile, but the stage ends earlier by as much; not so
// where the host link sets the time, so there the times must be equal.
bool no_worse(const OptionCost& a, const OptionCost& b, bool host_link) {
  for (int t = 0; t < kTiers; ++t)
    if (a.persistent[t] > b.persistent[t] || a.held[t] > b.held[t]) return false;
  if (host_link && a.last_gradient != b.last_gradient) return false;
  return a.forward <= b.forward && a.backward <= b.backward && a.weight <= b.weight &&
         a.host_forward <= b.host_forward && a.host_backward <= b.host_backward && a.begin <= b.begin &&
         a.sync <= b.sync && a.update <= b.update && a.held_weight <= b.held_weight && a.transient <= b.transient;
}

// What neighbours see of strategy k of layer u.
std::vector<int64_t> face(const Instance& in, int u, int k) {
  const size_t own = in.cost[u].size();
  std::vector<int64_t> f{in.cost[u][k].entry_forward, in.cost[u][k].entry_backward};
  if (!in.strategy_type.empty()) f.push_back(in.strategy_type[u][k]);
  const auto add = [&](const EdgeCost& e) {
    f.push_back(e.forward);
    f.push_back(e.backward);
  };
  if (u > 0)
    for (size_t j = 0; j < in.cost[u - 1].size(); ++j) {
      add(in.within[u - 1][j * own + k]);
      add(in.across[u - 1][j * own + k]);
      for (const auto& other : in.other_across) add(other[u - 1][j * own + k]);
    }
  if (u + 1 < in.num_layers())
    for (size_t l = 0, next = in.cost[u + 1].size(); l < next; ++l) {
      add(in.within[u][k * next + l]);
      add(in.across[u][k * next + l]);
      for (const auto& other : in.other_across) add(other[u][k * next + l]);
    }
  return f;
}

std::vector<UnitState> states_of(const Instance& in, int u, bool split, bool host_link, const bool* has_tier,
                                 bool drop_worse) {
  const bool one_stage = in.num_stages * in.chunks_per_stage == 1;
  std::map<std::vector<int64_t>, int> index;
  std::vector<UnitState> states;
  for (int k = 0; k < static_cast<int>(in.cost[u].size()); ++k) {
    const auto [it, fresh] = index.try_emplace(face(in, u, k), static_cast<int>(states.size()));
    if (fresh)
      states.push_back({.sample = k,
                        .type = in.strategy_type.empty() ? 0 : in.strategy_type[u][k],
                        .entry_forward = in.cost[u][k].entry_forward,
                        .entry_backward = in.cost[u][k].entry_backward,
                        .options = {}});
    auto& options = states[it->second].options;
    const OptionCost c = unit_cost(in.cost[u][k], k, split, one_stage, has_tier);
    if (drop_worse) {
      if (std::any_of(options.begin(), options.end(), [&](const OptionCost& o) { return no_worse(o, c, host_link); }))
        continue;
      std::erase_if(options, [&](const OptionCost& o) { return no_worse(c, o, host_link); });
    }
    options.push_back(c);
  }
  return states;
}

// Most micro-batches of each virtual stage between forward and backward, and between backward and weight gradient.
struct Counts {
  std::vector<int64_t> held, held_weight;
  std::vector<int64_t> joint_held, joint_held_weight;  // when the device holds most bytes, were layers alike
};
// The least bytes of the layers together: between forward and backward, and from there to the weight gradient.
struct LeastHeld {
  double held = 0, weight = 0;
};
LeastHeld least_held(const Instance& in) {
  LeastHeld sum;
  for (const auto& row : in.cost) {
    int64_t held = row.front().held[0], weight = row.front().held_weight;
    for (const CostVector& c : row) held = std::min(held, c.held[0]), weight = std::min(weight, c.held_weight);
    sum.held += static_cast<double>(held), sum.weight += static_cast<double>(weight);
  }
  if (sum.held + sum.weight <= 0) sum.held = 1;
  return sum;
}
Counts counts_of(const PipelineShape& shape, const LeastHeld& bytes) {
  const size_t stages = shape.num_virtual_stages();
  const PipelineTimes unit{.forward = std::vector<int64_t>(stages, 1),
                           .backward = std::vector<int64_t>(stages, 1),
                           .weight = std::vector<int64_t>(stages, 1),
                           .send_forward = std::vector<int64_t>(stages - 1, 0),
                           .send_backward = std::vector<int64_t>(stages - 1, 0),
                           .begin = std::vector<int64_t>(shape.num_devices, 0),
                           .tail = std::vector<int64_t>(shape.num_devices, 0)};
  const bool split = splits_backward(shape.schedule);
  const std::vector<int64_t> none(stages, 0);
  Counts most{none, none, none, none};
  std::vector<int64_t> held(stages, 0), weight(stages, 0);
  const PipelineOrder order = pipeline_order(shape, unit);
  for (const auto& ops : order) {
    double now = 0, peak = 0;
    for (const PipelineOp& op : ops) {
      if (op.phase == Phase::forward) now += bytes.held;
      if (op.phase == Phase::backward) now += (split ? bytes.weight : 0) - bytes.held;
      if (op.phase == Phase::weight) now -= bytes.weight;
      if (op.phase == Phase::forward) ++held[op.stage];
      most.held[op.stage] = std::max(most.held[op.stage], held[op.stage]);
      if (op.phase == Phase::backward) {
        --held[op.stage];
        if (split) ++weight[op.stage];
      }
      most.held_weight[op.stage] = std::max(most.held_weight[op.stage], weight[op.stage]);
      if (op.phase == Phase::weight) --weight[op.stage];
      if (now <= peak) continue;
      peak = now;
      const int device = device_of(shape, op.stage);
      for (size_t s = 0; s < stages; ++s)
        if (device_of(shape, static_cast<int>(s)) == device)
          most.joint_held[s] = held[s], most.joint_held_weight[s] = weight[s];
    }
  }
  return most;
}

// Forwards before the first backward of stage i, one stage to a device.
int64_t in_flight(const Instance& in, int i) { return most_in_flight(in.schedule, i, in.num_stages, in.num_micro); }

// Whether any stage could run out of a tier, all layers on it and every micro-batch in flight. Bytes of a tier that is
// always large enough are of no interest.
bool may_bind(const Instance& in, int tier) {
  int64_t room = in.capacity.front()[tier], most = 0;
  for (const TierBytes& c : in.capacity) room = std::min(room, c[tier]);
  for (const auto& row : in.cost) {
    int64_t bytes = 0;
    for (const CostVector& c : row) bytes = std::max(bytes, c.persistent[tier] + int64_t{in.num_micro} * c.held[tier]);
    if (bytes > room || (most += bytes) > room) return true;
  }
  return false;
}

Chain common(const Instance& in, Objective objective) {
  Chain c{.in = &in, .kind = kind_of(in, objective), .states = {}, .rule = {}, .form = {}};
  c.split = splits_backward(in.schedule);
  c.order_fixed = !order_follows_times(in.schedule);
  c.backwards_end = traits_of(in.schedule).chunks == ChunkRule::several;
  c.layers = in.num_layers();
  c.devices = in.num_stages;
  c.stages = in.num_stages * in.chunks_per_stage;
  c.micro = in.num_micro;
  for (const auto& row : in.cost)
    for (const CostVector& x : row) {
      c.has_tail |= x.sync + x.update + (c.stages == 1 ? x.begin : 0) > 0;
      c.has_begin |= c.stages > 1 && x.begin > 0;
      c.has_host_link |= x.host_forward + x.host_backward > 0;
      c.has_transient |= x.transient > 0;
    }
  for (int t = 1; t < kTiers; ++t) c.has_tier[t] = may_bind(in, t);
  c.rule.resize(c.stages);
  const PipelineShape shape = shape_of(in);
  for (int s = 0; s < c.stages; ++s) {
    c.rule[s].device = device_of(shape, s);
    c.rule[s].capacity = in.capacity[c.rule[s].device];
    c.rule[s].type = type_of_stage(in, c.rule[s].device);
  }
  return c;
}

// Layers of a class between layers of equal classes share their states, which are costly to sort.
void fill_states(Chain& c, bool drop_worse) {
  std::map<std::tuple<int, int, int>, int> first;
  c.states.resize(c.layers);
  const auto class_of = [&](int u) {
    return u < 0 || u >= c.layers ? -1 : c.in->layer_class.empty() ? u : c.in->layer_class[u];
  };
  for (int u = 0; u < c.layers; ++u) {
    const auto [it, fresh] = first.try_emplace(std::tuple{class_of(u - 1), class_of(u), class_of(u + 1)}, u);
    c.form.push_back(it->second);
    c.states[u] = fresh ? states_of(*c.in, u, c.split, c.has_host_link, c.has_tier, drop_worse) : c.states[it->second];
  }
}

}  // namespace

Chain make_chain(const Instance& in, Objective objective) {
  Chain c = common(in, objective);
  const bool one_stage_each = in.chunks_per_stage == 1;
  const bool has_rule = traits_of(in.schedule).in_flight != InFlight::by_order;
  c.exact_memory = one_stage_each && has_rule && c.order_fixed;
  // Where the order follows the times, or a device's stages share its memory, a strategy that is worse in every number
  // may still be part of the best assignment's order, or of the only one that brute force and search agree on.
  fill_states(c, c.exact_memory);
  if (one_stage_each && has_rule) {
    for (int s = 0; s < c.stages; ++s) {
      c.rule[s].in_flight = in_flight(in, s);
      c.rule[s].held = c.order_fixed ? c.rule[s].in_flight : 1;
    }
  } else {
    const Counts counts = counts_of(shape_of(in), least_held(in));
    for (int s = 0; s < c.stages; ++s) {
      if (one_stage_each) c.rule[s].in_flight = in.num_micro;  // no rule: maybe all
      c.rule[s].held = counts.held[s];
      c.rule[s].joint_held = counts.joint_held[s];
      c.rule[s].joint_held_weight = counts.joint_held_weight[s];
    }
  }
  return c;
}

Chain make_restricted_chain(const Instance& in) {
  Chain c = common(in, Objective::simple);
  c.exact_memory = true;
  c.micro = static_cast<int64_t>(in.num_micro) * in.chunks_per_stage;
  fill_states(c, true);
  const Counts counts = counts_of(shape_of(in), least_held(in));
  for (int s = 0; s < c.stages; ++s) {
    StageRule& r = c.rule[s];
    if (c.order_fixed) {
      r.held = counts.held[s];
      r.held_weight = counts.held_weight[s];
    } else {
      // Zero bubble: micro-batches between forward and backward, and those that await their weight gradient.
      r.held = in_flight(in, s);
      r.held_weight = in_flight(in, 0) - r.held + 1;
    }
    for (int64_t& bytes : r.capacity) bytes /= in.chunks_per_stage;
  }
  return c;
}

}  // namespace tern
