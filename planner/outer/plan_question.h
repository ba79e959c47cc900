#pragma once
// All that is asked about a plan, in one struct. A command fills it from its options; plan_model and planner/words answer it.

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
  std::vector<int64_t> batches;  // values of TrainJob::batch, rising; the one with most tokens/s is planned
  // What follows from the plan.
  std::optional<RunTerms> run;  // if set: the time and cost of a whole run are asked
  bool what_if = false;         // whether shadow prices are asked (planner/words/shadow_prices.h)
  bool node_counts = false;     // whether plans on fewer nodes are asked
  // For a question without a plan that fits: the space without --fix; then spaces without each of the
  // restrictions, and without all.
  SearchSpace unpinned;
  std::vector<WiderSpace> wider;
};

}  // namespace tern
