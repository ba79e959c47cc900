#pragma once
// Prices moves of one layer by what they change, for local improvement. Times and bytes of the devices that a move
// touches are computed anew, all others are kept. Most moves that are not faster are refused without a simulation.

#include <memory>

#include "plan/instance.h"

namespace tern {

/// Holds an assignment and makes it faster by moves of one layer.
class MovePricer {
 public:
  /// Keeps a reference to the instance. Errors: as check_instance; TERN_CHECK, for an assignment that does not fit.
  MovePricer(const Instance&, Assignment);
  ~MovePricer();

  const Assignment& assignment() const;
  int64_t makespan() const;  // ps, by the stage model: that of price()
  /// How many times a whole pipeline was walked, for simulations and longest paths: the same on every machine.
  int64_t walks() const;

  /// Gives layer `u` that virtual stage and strategy if the result fits and is faster; returns whether it did. The stage
  /// is the layer's own, or a neighbouring one if the layer is the first or last of its stage and not the only one.
  /// The longest paths of earlier assignments are kept, as no assignment is faster than any path takes with its times. A move is refused
  /// without a simulation if one of these paths, with the times after the move, takes at least the present makespan.
  bool take_if_faster(int u, int stage, int strategy);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern
