#pragma once
// An instance reduced to the strategies that an assignment better than a known one may have.

#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace tern {

/// A whole instance reduced to some of its strategies.
struct Kept {
  int64_t bound = 0;  // of the whole instance: at least upper_bound if no strategy is kept
  Instance instance;
  std::vector<std::vector<int>> strategy;  // (layers): the number in the whole instance of each kept strategy
  /// Makes `instance` of `whole` and `strategy`.
  void fill(const Instance& whole);
  /// An assignment of the reduced instance in the strategy numbers of the whole one.
  Assignment whole(const Assignment&) const;
};
/// Keeps the strategies that may be part of an assignment below `upper_bound`; a strategy is kept for all layers of a
/// class or for none. rounds: as cut_bound's.
Kept strategies_below(const Instance&, int64_t upper_bound, int rounds);

}  // namespace tern
