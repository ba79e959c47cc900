#pragma once
// A plan's bytes by what they are for.

#include <vector>

#include "plan/planned_memory.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

struct Priced;  // planner/instance/price.h

/// A plan's bytes by rank, tier and purpose; their sums are the peaks in `priced`.
std::vector<PlannedMemoryByTier> memory_classes(const SpaceOfChoices&, const Candidate&, const Instance&,
                                                const Assignment&, const Priced&);

}  // namespace tern
