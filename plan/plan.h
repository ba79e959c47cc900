#pragma once
// The Plan: the decision, with what was predicted for it and the proof's figures. Values only.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/instance.h"
#include "plan/strategy.h"
#include "plan/train_job.h"

namespace tern {

/// A run of neighbouring layers of one virtual stage under one strategy.
struct PlannedLayers {
  int first = 0, count = 1, stage = 0;
  LayerStrategy strategy;
  friend bool operator==(const PlannedLayers&, const PlannedLayers&) = default;
};

/// One place in the plan's pipeline. The devices of its mesh are all alike; the figures are those of one of them.
struct PlannedRank {
  std::string node;                                // its type, in the cluster file
  TierBytes peak{}, capacity{};                    // bytes per device: the most that is used, and the device's capacity
  int64_t busy_ps = 0, begin_ps = 0, tail_ps = 0;  // in a step: compute; before the first operation; after the last one
  friend bool operator==(const PlannedRank&, const PlannedRank&) = default;
};

/// One virtual stage as the stage model prices it, ps: the passes over one micro-batch, and the messages to and from
/// the next stage (0 for the last stage). backward_ps leaves out the weight gradients, which are weight_ps.
struct PlannedStage {
  int64_t forward_ps = 0, backward_ps = 0, weight_ps = 0, send_forward_ps = 0, send_backward_ps = 0;
  friend bool operator==(const PlannedStage&, const PlannedStage&) = default;
};

/// The plan's Program (program/lower.h), simulated (program/simulate.h) with the cost model's times. A Program depends
/// on the scratch bytes of matrix products, and so does its checksum. A run always counts scratch bytes (f64 has none).
/// A plan counts scratch bytes only if `tern profile` wrote the cluster file, and then those of the machine that plans. So a run's
/// checksum may differ from its plan's.
struct PlannedProgram {
  uint32_t checksum = 0;  // of the Program
  int64_t instructions = 0;
  /// Simulated. It exceeds Plan::step_ps where ranks wait until messages have left; with several chunks per device it may be less.
  /// Where devices share cores it may be less too: Plan::step_ps leaves a core idle while its device waits.
  int64_t step_ps = 0;
  friend bool operator==(const PlannedProgram&, const PlannedProgram&) = default;
};

/// Why the plan does not have some feature: a lower bound of all choices with the feature, and the best plan found
/// among the most promising of these choices. A feature "neighbour: …" is a single choice, one step away from the plan.
struct PlannedFamily {
  std::string feature;   // "tensor 4", "schedule gpipe"
  bool found = false;    // a plan of the family was found
  bool fits = true;      // false: no choice of it fits
  std::string choice;    // the best plan's, in words
  int64_t step_ps = 0;   // the best plan's step time
  int64_t bound_ps = 0;  // no plan of the family is faster
  friend bool operator==(const PlannedFamily&, const PlannedFamily&) = default;
};

/// Numbers of outer choices, by what became of them.
struct ChoiceCounts {
  int64_t legal = 0;      // all legal choices, except those too large to be planned
  int64_t by_bound = 0;   // closed because a bound is no better than the best plan, or because bytes exceed the room
  int64_t by_search = 0;  // closed by search
  int64_t open = 0;       // not closed: one of these choices might be faster than the plan, hence a gap
  friend bool operator==(const ChoiceCounts&, const ChoiceCounts&) = default;
};

/// How far the predicted step may be off, judged by runs that were measured and left out of the fit. For a step of step_ps the
/// range is low_ps to high_ps: of nine in ten runs, measured / predicted lay between low_ps / step_ps and high_ps / step_ps.
struct PlannedError {
  std::string software;  // what the measured runs ran on
  int64_t rows = 0;      // runs that were left out and predicted
  int64_t low_ps = 0, high_ps = 0;
  double median = 0;  // of |predicted/measured − 1|
  friend bool operator==(const PlannedError&, const PlannedError&) = default;
};

/// A plan of training. Times are in picoseconds.
struct Plan {
  std::string model, hardware, node;  // as asked for; the cluster's name; the types of the nodes in use, in words
  int64_t parameters = 0;
  TrainJob job;
  OuterChoice choice;
  int64_t idle_devices = 0;
  std::vector<PlannedLayers> layers;

  int64_t step_ps = 0;                // the stage model's time
  std::optional<PlannedError> error;  // of a calibrated cluster
  std::vector<PlannedRank> ranks;
  std::vector<PlannedStage> stages;       // virtual stages; empty: read from a file without stages
  std::optional<PlannedProgram> program;  // absent: not lowered
  double price_per_hour = 0;
  double flops_share = 0;  // the model's FLOPs over the used devices' peak
  std::string binds;       // what keeps the plan from being faster, in words

  // Proof. No plan of the space is faster than bound_ps. The bound model (planner/instance/search.h) gives each
  // assignment a lower bound of the makespan. model_ps: the least lower bound of the assignments seen. model_bound_ps: no
  // assignment has a smaller lower bound. The two are equal once that search is finished.
  int64_t bound_ps = 0, model_ps = 0, model_bound_ps = 0;
  ChoiceCounts counts;
  std::vector<std::string> restrictions;  // in words: what was searched only in part, and other notes for people
  std::vector<PlannedFamily> families;

  double model_gap() const;                 // (model_ps − model_bound_ps) / model_ps
  double simulator_gap() const;             // the same of step_ps and bound_ps
  double tokens_per_second() const;         // without padding
  double window_tokens_per_second() const;  // with padding
  friend bool operator==(const Plan&, const Plan&) = default;
};

}  // namespace tern
