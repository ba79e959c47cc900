#pragma once
// A pool of unlike devices cut into pipelines of unlike shape, side by side, that share the micro-batches of a step.
//
// Column generation with an exact master: a column is a pipeline with its number of devices of each type and
// of micro-batches. All columns enter with a cheap lower bound of their makespan; the master (a knapsack over used
// devices) finds the least step time for which columns cover the micro-batches; the columns of its answer are searched,
// their bounds rise, and the master is asked again. Its value is a lower bound at any time, and the optimum once its
// answer holds searched columns alone. Source: delayed columns as in Gilmore and Gomory 1961 (recalled); the master
// solved in integers, so no branching is left.

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/instance.h"

namespace tern {

/// The question.
struct PoolProblem {
  std::vector<int> devices;  // by type, in units of what a stage takes
  int pipelines = 1;         // exactly so many (their makespan includes what they synchronise)
  int num_micro = 1;         // in all; each pipeline does one at least
  /// No pipeline on `uses` devices does m micro-batches in less.
  std::function<int64_t(const std::vector<int>& uses, int m)> bound;
  struct Solved {
    int64_t bound = 0, makespan = 0;  // of the best; kNever: none fits. Equal: it is the least
  };
  std::function<Solved(const std::vector<int>& uses, int m)> solve;
};

/// A pipeline of the answer: the devices of each type that it uses, and its micro-batches.
struct PoolPipeline {
  std::vector<int> uses;
  int num_micro = 0;
  int64_t makespan = 0;
};
/// The answer. Times in ps.
struct PoolAnswer {
  bool found = false;
  std::vector<PoolPipeline> pipelines;  // the slowest first; ties by fewer devices
  int64_t makespan = 0;                 // of the slowest
  int64_t bound = 0;                    // nothing is below; kNever: nothing fits
  int64_t columns = 0, searched = 0;
};

/// Solves the problem. `upper_bound`: only a makespan below it is wanted. `late`: ends the search, the answer keeps its
/// gap.
/// Errors: usage, for a pool of more than a million counts of used devices and pipelines.
PoolAnswer share_pool(const PoolProblem&, int64_t upper_bound, const std::function<bool()>& late);

}  // namespace tern
