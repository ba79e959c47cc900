#pragma once
// A plan's Program, simulated: its checksum, its length and its time.

#include <optional>

#include "hardware/cluster.h"
#include "program/placement.h"

namespace tern {

/// If most_instructions exceeds this, `tern plan` makes no Program, because making it would take as long as the search.
inline constexpr int64_t kMostPlannedInstructions = 200'000;

/// An upper bound of the number of instructions of the plan's Program, computed without making the list.
int64_t most_instructions(const ModelSpec&, const Plan&);

/// Lowers the plan for all devices of its pipeline and runs the Program on the simulator. An instruction takes the cost
/// model's time (program/instruction_times.h), a message the time that the plan gives for its stage. If the cluster's
/// devices share cores, the simulation shares them (program/shared_cores.h).
/// Absent: most_instructions exceeds kMostPlannedInstructions, or the plan has no times of stages.
/// Errors: those of placement_of; usage: a rank's node is not in the cluster. TERN_CHECK: those of simulate.
std::optional<PlannedProgram> program_of_plan(const ModelSpec&, const Cluster&, const Plan&,
                                              const PlacementOptions& = {});

}  // namespace tern
