#pragma once
// A plan's bytes by purpose.

#include <vector>

#include "plan/planned_memory.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

struct Priced;  // planner/instance/price.h

/// The bytes of each rank, by tier and purpose. They add up to the peaks of Priced.
std::vector<PlannedMemoryByTier> memory_classes(const SpaceOfChoices&, const Candidate&, const Instance&,
                                                const Assignment&, const Priced&);

}  // namespace tern
