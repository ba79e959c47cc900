#pragma once
// owner: which rank of several keeps which interval of a unit's parameters, where state is shared out (ZeRO). One
// predicate for update, norm, checkpoint and export.

#include <cstdint>
#include <span>
#include <vector>

#include "spec/layout.h"
#include "spec/update_rule.h"

namespace tern {

/// An interval of the flat elements of one parameter: whole blocks of kUpdateBlock, what the norm sums in one go, so that
/// a norm put together from the ranks' blocks has the bits of the whole. The last block of a parameter may be shorter.
struct OwnedInterval {
  int parameter;  // in the order given
  Interval elements;
  friend bool operator==(const OwnedInterval&, const OwnedInterval&) = default;
};

/// What `rank` of `ranks` keeps of a unit: its parameters' blocks, laid end to end, are dealt in runs that differ by one
/// block at most. In ascending order.
/// Shapes  elements: of each parameter of the unit.
std::vector<OwnedInterval> owned_intervals(std::span<const int64_t> elements, int rank, int ranks);

/// The rank that keeps an element, under the same deal. Errors: TERN_CHECK: no such element.
int owner(std::span<const int64_t> elements, int ranks, int parameter, int64_t element);

}  // namespace tern
