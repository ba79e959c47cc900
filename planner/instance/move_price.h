#pragma once
// Prices moves of one layer by what they change, for local improvement. Times and bytes of the devices that a move
// touches are computed anew and all others kept; most moves that are no faster are refused without a simulation.

#include <memory>

#include "plan/instance.h"

namespace tern {

/// An assignment that moves improve.
class MovePricer {
 public:
  /// Keeps a reference to the instance. Errors: as check_instance; TERN_CHECK, for an assignment that does not fit.
  MovePricer(const Instance&, Assignment);
  ~MovePricer();

  const Assignment& assignment() const;
  int64_t makespan() const;  // ps, by the stage model: that of price()
  /// How many times a whole pipeline was walked, for simulations and longest paths: the same on every machine.
  int64_t walks() const;

  /// Gives layer `u` that virtual stage and strategy if the result fits and is faster; says whether it did. The stage
  /// is the layer's own, or one beside it where the layer is the first or last of its stage and not the only one.
  /// A move is refused without a simulation if, at the times after the move, a path that was the longest for an earlier
  /// assignment takes at least the present makespan (PipelineCut: whatever the times, such a path is a lower bound).
  bool take_if_faster(int u, int stage, int strategy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
