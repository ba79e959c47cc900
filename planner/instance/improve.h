#pragma once
// Local improvement of an assignment: one layer at a time takes another strategy or stage, until no such move is
// faster.

#include <atomic>
#include <cstdint>
#include <limits>

#include "plan/instance.h"

namespace tern {

/// What ends the improvement.
struct ImproveOptions {
  double seconds = std::numeric_limits<double>::infinity();  // wall clock
  int64_t operations = 500'000'000;  // most operations to walk; a count: the same end on every machine
  const std::atomic<bool>* stop = nullptr;
};

/// The improved assignment.
struct Improved {
  Assignment assignment;
  int64_t makespan = 0;  // ps
  int64_t tried = 0, taken = 0;
  bool complete = true;  // no single move is faster; false: time, operations or stop ended it
};

/// Improves an assignment that fits. A move gives one layer any strategy in its stage; or, if it is the first or last
/// layer of its stage and not the only one, any strategy in the neighbouring virtual stage. The first faster move that
/// fits is taken, layers in order and around again. The result is never slower than what was given.
/// Errors: TERN_CHECK, for an assignment that does not fit.
Improved improve(const Instance&, Assignment, const ImproveOptions& = {});

}  // namespace tern
