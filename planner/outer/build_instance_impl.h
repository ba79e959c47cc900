#pragma once
// Between an outer choice and the tables of integers in which its layers are placed.

#include <vector>

#include "plan/instance.h"
#include "planner/outer/candidates_impl.h"

namespace tern {

/// The Instance of a candidate; `previous` may hold another one's and is overwritten (same tables: cheaply).
struct BuiltInstance {
  Instance instance;
  int tables = -1, form = -1, inside = -1;
};
void build_instance(const SpaceOfChoices&, const Candidate&, BuiltInstance& previous);

/// The layers of a plan: neighbours in one stage under one strategy become one entry.
std::vector<PlannedLayers> planned_layers(const SpaceOfChoices&, const Candidate&, const Assignment&);

}  // namespace tern
