#pragma once
// A plan's Program, simulated: its checksum, its length and its time.

#include <optional>

#include "hardware/cluster.h"
#include "program/placement.h"

namespace tern {

/// A Program of more instructions is not made when a plan is priced: it would take as long as the search.
inline constexpr int64_t kMostPlannedInstructions = 200'000;

/// Lowers the plan for all devices of its pipeline and runs it on the simulator, each instruction with the cost model's time
/// (program/instruction_times.h) and each message with its stage's.
/// Absent: a Program of more than kMostPlannedInstructions, or a plan that does not say its stages.
/// Errors: as placement_of's; usage: a rank's node is not in the cluster. TERN_CHECK: those of simulate.
std::optional<PlannedProgram> program_of_plan(const ModelSpec&, const Cluster&, const Plan&,
                                              const PlacementOptions& = {});

}  // namespace tern
