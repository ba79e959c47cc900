#pragma once
// A pool of unlike devices cut into pipelines of unlike shape, side by side, that share the micro-batches of a step.
//
// Column generation with an exact master: a column is a pipeline with a number of devices of each type and a number
// of micro-batches. All columns enter with a cheap lower bound of their makespan. The master (a knapsack over used
// devices) finds the least step time for which columns cover the micro-batches. The columns of its answer are searched,
// their bounds rise, and the master is solved again. The master's value is always a lower bound. It is the optimum once
// every column of the answer is searched. Source: delayed columns as in Gilmore and Gomory 1961 (recalled). The master
// is solved in integers, so no branching is needed.

#include <cstdint>
#include <functional>
#include <vector>

#include "plan/instance.h"

namespace tern {

/// The question.
struct PoolProblem {
  std::vector<int> devices;  // of each type; here a device is what runs one stage: a whole tensor group
  int pipelines = 1;         // exactly so many; makespans of `solve` include the time to sum their gradients
  int num_micro = 1;         // of all pipelines together; each pipeline does one at least
  /// A lower bound: no pipeline that uses uses[t] devices of each type t does m micro-batches in less time.
  std::function<int64_t(const std::vector<int>& uses, int m)> bound;
  struct Solved {
    int64_t bound = 0, makespan = 0;  // of the fastest pipeline; kNever: no pipeline fits. If equal: proven least
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
  int64_t makespan = 0;                 // of the slowest pipeline
  int64_t bound = 0;                    // no answer has a smaller makespan; kNever: none fits
  int64_t columns = 0, searched = 0;
};

/// Solves the problem. Only an answer below `upper_bound` is wanted. Once `late` returns true, the search ends, even if
/// the best answer is not proven least.
/// Errors: usage: `pipelines` · Π (devices of a type + 1) is above a million; `pipelines` or `num_micro` is below 1.
PoolAnswer share_pool(const PoolProblem&, int64_t upper_bound, const std::function<bool()>& late);

}  // namespace tern
