#pragma once
// Exact search in one Instance: layers into stages, a strategy for each, so that the simulated makespan
// (planner/instance/price.h) is least and every device's bytes fit. docs/planner.md says what is exact and what is not.

#include <atomic>
#include <cstdint>
#include <limits>

#include "plan/instance.h"

namespace tern {

/// What the search minimizes.
enum class Objective : uint8_t {
  simulated,  // the makespan
  simple,     // simple_objective of price.h
};

/// What is searched for, and what ends the search.
struct SearchOptions {
  Objective objective = Objective::simulated;
  /// Only a value below this one is wanted. It may be the best of another θ. The search stops when no smaller value can exist.
  int64_t upper_bound = kNever;
  double seconds = std::numeric_limits<double>::infinity();  // wall clock; the answer then keeps its gap
  int64_t simulations = 20000;                               // most simulations after the search over the bound model;
                                                             // a count, so the same on every machine
  int64_t labels = 20'000'000;       // most partial stages, or pipelines, in a round; above it the answer keeps its gap
  int64_t bytes = int64_t{1} << 62;  // most bytes of partial plans at once, counted as on one thread
  int threads = 1;                   // changes no byte of the answer
  const std::atomic<bool>* stop = nullptr;  // set by another thread: the answer then keeps its gap
};

/// How much was done.
struct SearchCounts {
  int64_t labels = 0;     // partial stages kept
  int64_t suffixes = 0;   // partial pipelines kept
  int64_t simulated = 0;  // assignments priced
  int64_t rounds = 0;     // of the search; each allows a higher bound than the one before
};

/// The answer; times in ps. It does not depend on the number of threads, unless `seconds` or `stop` ended the
/// search.
struct SearchResult {
  bool found = false;  // an assignment that fits, with value_ps < upper_bound
  Assignment assignment;
  int64_t value_ps = 0;     // the assignment's objective: makespan or simple objective
  int64_t makespan_ps = 0;  // simulated

  /// No assignment that fits has a smaller objective than this (kNever if none fits).
  int64_t bound_ps = 0;
  /// The bound model gives each assignment a lower bound of its objective, computed from the stages' times. model_ps:
  /// the least lower bound of the assignments seen. model_bound_ps: no assignment has a smaller lower bound. The two
  /// are equal once the search over the bound model is finished.
  int64_t model_ps = 0, model_bound_ps = 0;

  bool interrupted = false;  // seconds, stop, labels or bytes ended the search before it had proven its answer
  bool restricted = false;   // the assignment is the best of a restricted family; bound_ps holds for the whole space

  /// No assignment fits. None would fit even if every tier of every device had missing_bytes − 1 bytes more room.
  /// With missing_bytes more room some assignment fits, if each device holds one stage and the schedule's order is fixed.
  bool infeasible = false;
  int device = 0;
  Tier tier = Tier::device;  // of `device`: where most is missing
  int64_t missing_bytes = 0;

  SearchCounts counts;

  double model_gap() const { return gap(model_ps, model_bound_ps); }
  double simulator_gap() const { return gap(value_ps, bound_ps); }
  static double gap(int64_t value, int64_t bound) {
    return bound >= value ? 0 : static_cast<double>(value - bound) / static_cast<double>(value);
  }
};

/// Searches the instance. Errors: usage, as check_instance.
SearchResult search(const Instance&, const SearchOptions& = {});

/// A lower bound of the makespan of every assignment that fits, ps; takes milliseconds. The outer search orders choices
/// by this bound.
int64_t quick_bound(const Instance&);

}  // namespace tern
