#pragma once
// What people do without a planner: rules of thumb for the whole question of planner/outer/plan_model.h, under the same
// costs and priced by the same stage model.

#include <cstdint>
#include <string>
#include <vector>

#include "planner/outer/plan_model.h"

namespace tern {

/// What a rule chooses.
struct RulePlan {
  std::string rule;  // "Megatron's rule"
  bool found = false;
  OuterChoice choice;
  int64_t makespan_ps = 0;
};

/// The choices of four rules in the request's space, on the type of node that has most devices. Layers lie evenly over
/// the stages by time under one strategy, the fastest that fits (uniform_plan):
///   Megatron's rule    tensor parallelism as wide as a node, then as few stages as fit, the rest data parallel; 1F1B
///                      (interleaved if the space has it), the micro-batch that is fastest; ZeRO up to 1
///   sharded data       ZeRO 3 over all devices, one stage
///   data parallel      ZeRO 0, one stage
///   a random choice    of `draws` choices drawn from all choices, the median of those that fit
/// Source of Megatron's rule: Narayanan et al. 2021, arXiv:2104.04473, takeaways 1 to 3 (recalled).
std::vector<RulePlan> rules_of_thumb(const ModelSpec&, const Cluster&, const PlanRequest&, int draws, uint64_t seed);

}  // namespace tern
