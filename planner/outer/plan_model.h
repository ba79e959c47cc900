#pragma once
// The whole question: a model, a cluster, a job; every mesh, pipeline and micro-batch (θ), and for each the search over
// layers and strategies. Bounds close what cannot win, so that the proof covers θ too.

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

namespace tern {

struct PlanRequest {
  std::string model;  // its name in the plan
  TrainJob job;
  SearchSpace space;
  SearchEffort effort = SearchEffort::normal;
  double seconds = std::numeric_limits<double>::infinity();  // then the best so far, with its gap
  int threads = 1;
  /// Above 0: any plan that fits will do, and the answer has its choice alone. The search looks where memory is least (the
  /// smallest micro-batches; least_memory schedules alone, if one of one chunk is there), with this much work at most:
  /// operations simulated, and what takes as long. A count, so that the answer is the same on every machine.
  int64_t any_fit_within = 0;
  const std::atomic<bool>* stop = nullptr;
  /// Called now and then with the choices that this pass has still to look at, and the best step so far (ps, 0: none).
  std::function<void(int64_t left, int64_t best_ps)> progress = {};
};

/// Nothing fits: the choice that lacks least.
struct NoFit {
  std::string choice, node;
  Tier tier = Tier::device;
  int rank = 0;
  int64_t missing_bytes = 0, capacity_bytes = 0;  // per device
};

struct PlanAnswer {
  bool found = false;
  Plan plan;  // if found
  // If found: the stages' times, as simulated.
  PipelineShape shape;
  PipelineTimes times;
  std::vector<PlannedMemoryByTier> memory;  // by rank: what is in PlannedRank::peak
  NoFit no_fit;                             // else
  // Where none was found: whether memory closed every choice (else no_fit is empty, and `open` of the `choices` may hold a
  // plan).
  bool proven_infeasible = false;
  bool interrupted = false;  // time, stop or work
  int64_t choices = 0, open = 0;
  double seconds = 0;
  int64_t searches = 0, simulated = 0;
  int64_t work = 0;  // of PlanRequest::any_fit_within
};

/// The least simulated makespan over the space; ties by the order of enumeration. A pipeline's stages may lie on nodes
/// of several types, with one mesh for all; Plan::restrictions says what was left out. Order: the same bytes whatever
/// `threads`, unless `seconds` or `stop` ended it. Errors: usage, if no choice is legal (names the broken rules, or the pins
/// that cannot be), if the space has no strategy that its framework runs, or if every step may exceed kMostStepPs (names the
/// cluster's file).
PlanAnswer plan_model(const ModelSpec&, const Cluster&, const PlanRequest&);

}  // namespace tern
