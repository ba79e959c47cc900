#pragma once
// The outer search. For a model, a cluster and a job it tries every mesh, pipeline and micro-batch (θ) and searches
// layers and strategies for each θ. Bounds close each θ that cannot win, so the proof covers θ too.

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "hardware/cluster.h"
#include "plan/plan.h"
#include "plan/planned_memory.h"
#include "planner/outer/effort.h"
#include "planner/outer/search_space.h"
#include "program/pipeline.h"
#include "spec/model_spec.h"
#include "spec/recompute.h"

namespace tern {

/// The question.
struct PlanRequest {
  std::string model;  // its name in the plan
  TrainJob job;
  SearchSpace space;
  SearchEffort effort = SearchEffort::normal;
  double seconds =
      std::numeric_limits<double>::infinity();  // wall clock; then the best plan so far is the answer, with its gap
  int threads = 1;
  /// A limit on the work, in simulated operations. Pricing all layers for a mesh and micro-batch counts as 10,000 of them, a choice
  /// as 100. If 0, the best plan is searched. Above 0 the first plan that fits ends the search; PlanAnswer::plan has only `choice`.
  /// The search then skips, unless pinned: micro-batches of several sequences; Ulysses; schedules without least_memory
  /// (spec/pipeline_schedule.h) if the space has a one-chunk schedule with least_memory.
  int64_t any_fit_within = 0;
  const std::atomic<bool>* stop = nullptr;
  /// Called now and then with the number of choices left in the present pass over the choices (a search makes several
  /// passes), and the best step so far (ps; 0: none).
  std::function<void(int64_t left, int64_t best_ps)> progress = {};
};

/// If no plan fits: the choice that lacks the fewest bytes.
struct NoFit {
  std::string choice, node;
  Tier tier = Tier::device;
  int rank = 0;
  int64_t missing_bytes = 0, capacity_bytes = 0;  // per device
};

/// The answer.
struct PlanAnswer {
  bool found = false;
  Plan plan;  // if found
  // If found by a search for the best plan: the pipeline, and the stages' times in it.
  PipelineShape shape;
  PipelineTimes times;
  std::vector<PlannedMemoryByTier> memory;  // by rank: PlannedRank::peak by tier and purpose
  NoFit no_fit;                             // if proven_infeasible, and any_fit_within was 0
  // If no plan was found: whether memory excludes every choice. If false, no_fit is empty, and `open` choices may still
  // have a plan.
  bool proven_infeasible = false;
  bool interrupted = false;  // by seconds, stop or any_fit_within
  int64_t choices = 0, open = 0;
  double seconds = 0;
  int64_t searches = 0, simulated = 0;
  int64_t work = 0;  // of a search with any_fit_within: counted as it says; else 0
};

/// Finds the plan of least makespan (run_pipeline's) in the space; of plans with equal makespan the one found first
/// (docs/architecture.md has the order of the search). A pipeline's stages may lie on nodes of several types, with one mesh for all.
/// Plan::restrictions says what was left out. The answer does not depend on `threads`, unless `seconds` or `stop` ended the search. Errors: usage, if no
/// choice is legal (names the broken rules, or the pins that no choice has), if the space has no strategy that its
/// framework runs, or if every step may exceed kMostStepPs (names the cluster's file).
PlanAnswer plan_model(const ModelSpec&, const Cluster&, const PlanRequest&);

}  // namespace tern
