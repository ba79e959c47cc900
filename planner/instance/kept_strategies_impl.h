#pragma once
// An instance without the strategies that no assignment better than a known one can have.

#include <cstdint>
#include <vector>

#include "plan/instance.h"

namespace tern {

/// An instance with some of the strategies of a whole one.
struct Kept {
  int64_t bound = 0;  // of the whole instance: at least upper_bound if nothing is kept
  Instance instance;
  std::vector<std::vector<int>> strategy;  // (layers): of each that is kept, its number in the whole
  /// Makes `instance` of `whole` and `strategy`.
  void fill(const Instance& whole);
  /// The same assignment in the whole instance's numbers.
  Assignment whole(const Assignment&) const;
};
/// Keeps the strategies that may be part of an assignment below `upper_bound`; a strategy is kept for all layers of a
/// class or for none. rounds: as cut_bound's.
Kept strategies_below(const Instance&, int64_t upper_bound, int rounds);

}  // namespace tern
