#pragma once
// What is asked about a plan, as one value: a command reads its options into it; planner/words takes it whole.

#include <optional>
#include <string>
#include <vector>

#include "hardware/cluster.h"
#include "plan/run_cost.h"
#include "planner/outer/plan_model.h"
#include "spec/model_spec.h"

namespace tern {

/// A space without some of the restrictions that were given; `words`: "without --zero".
struct WiderSpace {
  std::string words;
  SearchSpace space;
};

/// The question.
struct PlanQuestion {
  ModelSpec spec;
  Cluster cluster;
  PlanRequest request;           // job, space with its pinned axes, limits
  std::vector<int64_t> batches;  // sequences per step, rising; of several, the one with most tokens/s is planned
  // What follows from the plan.
  std::optional<RunTerms> run;  // of a whole run: its time and cost
  bool what_if = false;         // what a little more memory, link or compute would gain
  bool node_counts = false;     // fewer nodes
  // For a question without a plan that fits: the space without pinned axes; then spaces without each of the
  // restrictions, and without all.
  SearchSpace unpinned;
  std::vector<WiderSpace> wider;
};

}  // namespace tern
