#pragma once
// From an outer choice to the Instance in which its layers are placed, and from an assignment back to a plan's layers.

#include <vector>

#include "plan/instance.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

/// An Instance, and which tables it was built from.
struct BuiltInstance {
  Instance instance;
  int tables = -1, form = -1, inside = -1;
};
/// Builds the candidate's Instance in `previous`, which may hold another candidate's. If both have the same tables, this costs
/// little.
void build_instance(const SpaceOfChoices&, const Candidate&, BuiltInstance& previous);

/// The layers of a plan: neighbours in one stage under one strategy become one entry.
std::vector<PlannedLayers> planned_layers(const SpaceOfChoices&, const Candidate&, const Assignment&);

}  // namespace tern
