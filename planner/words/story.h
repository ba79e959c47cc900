#pragma once
// What follows from a plan but is no part of it: share of the peak with its formula, the whole run's time and money,
// the gain of a little more memory or link, what to measure first, the files of other frameworks. As text, and as
// "report" in the plan's JSON.

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "plan/emit.h"
#include "plan/run_cost.h"
#include "planner/outer/plan_question.h"
#include "planner/words/planned_points.h"
#include "planner/words/shadow_prices.h"

namespace tern {

/// The story of one plan.
struct PlanStory {
  RunTerms terms;
  std::optional<RunCost> run;
  std::vector<ShadowPrice> shadow;
  std::vector<PlannedPoint> nodes, batches;
  std::optional<Framework> framework;
  EmittedPlan emitted;                      // of the framework
  std::vector<PlannedMemoryByTier> memory;  // of the plan's ranks
  std::string uncalibrated;                 // what the step is worth without a calibration; "" with one
};

/// Answers what the question asks about a plan that was found: the run and its terms, what-if, node counts, the
/// framework's files. Each what-if and number of nodes is a search. The caller fills `batches` and `uncalibrated`.
PlanStory story_of(const PlanQuestion&, const PlanAnswer&);

/// A rival of the plan, from Plan::families. Lists of rivals have each choice once, the fastest first.
struct Rival {
  std::string choice;
  int64_t step_ps = 0;
};
/// Rivals whose step exceeds the plan's by at most `share`.
std::vector<Rival> ties_of(const Plan&, double share);
/// The plan and its fastest rivals, three at most in all, between which a measurement must decide.
std::vector<Rival> measure_first(const Plan&);

/// The story as the "report" of a plan file.
Json story_json(const ModelSpec&, const Cluster&, const Plan&, const PlanStory&);
/// Lines as `tern plan` prints them. `details`: also the share of the peak with its formula, ties and what to measure.
std::string story_words(const ModelSpec&, const Cluster&, const Plan&, const PlanStory&, bool details = true);

}  // namespace tern
