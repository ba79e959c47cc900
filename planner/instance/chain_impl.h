#pragma once
// An Instance made ready for the search: which bound model it falls under, what each virtual stage may hold, and each
// layer's strategies grouped into states. Strategies of a layer with equal resharding and entry costs share a state, because no
// neighbouring layer can tell them apart: with free resharding a layer has one state, however many strategies.

#include <cstdint>
#include <vector>

#include "plan/instance.h"
#include "planner/instance/search.h"

namespace tern {

/// Which terms of bound_model_impl.h a chain has.
enum class BoundKind : uint8_t { one_f_one_b, gpipe, simple, zero_bubble, chunked };

/// A strategy's costs as a stage adds them up (planner/instance/price.h).
struct OptionCost {
  int strategy = 0;
  int64_t forward = 0, backward = 0, weight = 0;  // backward: with recompute, and weight if not split
  int64_t host_forward = 0, host_backward = 0;
  int64_t last_gradient = 0;  // time of the unit's last gradient operation, resharding left out
  int64_t begin = 0, sync = 0, update = 0;
  TierBytes persistent{}, held{};
  int64_t held_weight = 0, transient = 0;
};

/// Strategies of one layer with equal resharding and entry costs.
struct UnitState {
  int sample = 0;  // one of the strategies, by which edge costs are looked up
  int type = 0;    // type of the devices that run the strategies, if there are several types
  int64_t entry_forward = 0, entry_backward = 0;
  std::vector<OptionCost> options;
};

/// What a virtual stage may hold. If each device has one stage and the order is fixed, an assignment fits if and only
/// if its stages keep to their rules (Chain::exact_memory). Else every assignment that fits keeps make_chain's rules,
/// and every assignment that keeps make_restricted_chain's rules fits.
struct StageRule {
  int device = 0;
  int64_t held = 1, held_weight = 0;  // micro-batches at the peak
  int64_t joint_held = 0,
          joint_held_weight = 0;  // if devices hold several stages: micro-batches of this one at the device's peak
  int64_t in_flight = 1;          // forwards that may start before the first backward
  TierBytes capacity{};
  int type = kAnyType;  // of its devices
  bool takes(const UnitState& s) const { return type == kAnyType || s.type == type; }
  friend bool operator==(const StageRule&, const StageRule&) = default;
};

/// The instance as the search sees it.
struct Chain {
  const Instance* in = nullptr;
  BoundKind kind = BoundKind::one_f_one_b;
  bool split = false;          // weight gradients are operations of their own
  bool exact_memory = true;    // a stage that keeps its rule fits
  bool order_fixed = true;     // the order ignores times: smaller stage times never give a larger makespan
  bool backwards_end = false;  // chunks: a device's last operations are backwards that wait for the next stage
  int layers = 0, stages = 0, devices = 0;  // `stages`: virtual stages
  int64_t micro = 1;
  std::vector<std::vector<UnitState>> states;  // (layers)(states)
  std::vector<StageRule> rule;                 // (stages)
  std::vector<int> form;                       // (layers) layers of equal form have equal states, options and edges
  bool has_tail = false, has_begin = false, has_host_link = false;
  bool has_tier[kTiers] = {true, false, false};
  bool has_transient = false;

  const EdgeCost& within(int u, int state, int next) const { return edge(in->within, u, state, next); }
  const EdgeCost& across(int s, int u, int state, int next) const {  // behind virtual stage s
    return edge(links_behind(*in, s), u, state, next);
  }
  /// Whether a link lies between virtual stages s and s + 1. There is none if they share a device.
  bool linked(int s) const { return rule[s].device != rule[s + 1].device; }
  int64_t stage_bytes(const OptionCost& c, const StageRule& r, int tier) const {
    return c.persistent[tier] + r.held * c.held[tier] + (tier == 0 ? r.held_weight * c.held_weight : 0);
  }

 private:
  const EdgeCost& edge(const std::vector<std::vector<EdgeCost>>& edges, int u, int state, int next) const {
    return edges[u][states[u][state].sample * in->cost[u + 1].size() + states[u + 1][next].sample];
  }
};

/// The chain whose lower bounds hold for every assignment that fits.
Chain make_chain(const Instance&, Objective);
/// The chain of assignments that surely fit, with the simple objective instead of the makespan: the stages of one
/// device share its memory evenly and hold as many micro-batches as the schedule allows. For schedules that make_chain cannot
/// search exactly.
Chain make_restricted_chain(const Instance&);

}  // namespace tern
