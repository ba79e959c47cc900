#pragma once
// The best bound that the relaxation gives, found by adding one path after another to the mixture, as in Benders'
// decomposition.

#include <cstdint>
#include <vector>

#include "planner/instance/relaxation_impl.h"

namespace tern {

/// A bound, and the mixture and prices that give it.
struct CutBound {
  int64_t bound = 0;  // ps; kNever: nothing fits
  PathTerms weights;
  double mu = 0;
  std::vector<double> dear;
};
/// The best bound of at most `rounds` paths. It ends early once the bound reaches `upper_bound` or no longer rises.
CutBound cut_bound(const Chain&, int64_t upper_bound, int rounds);
/// The bound with which cut_bound starts: that of mean_paths. ps; kNever: nothing fits. Takes milliseconds.
int64_t mean_bound(const Chain&);

}  // namespace tern
