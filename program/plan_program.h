#pragma once
// A plan's Program, simulated: its checksum, its length and its time.

#include <optional>

#include "hardware/cluster.h"
#include "program/placement.h"

namespace tern {

/// `tern plan` makes no Program whose most_instructions are more: to make it would take as long as the search.
inline constexpr int64_t kMostPlannedInstructions = 200'000;

/// The plan's Program has no more instructions than this. Counted from the plan alone.
int64_t most_instructions(const ModelSpec&, const Plan&);

/// Lowers the plan for all devices of its pipeline and runs the Program on the simulator. An instruction takes the cost
/// model's time (program/instruction_times.h), a message the time that its stage says.
/// Absent: most_instructions are more than kMostPlannedInstructions, or the plan does not say its stages.
/// Errors: as placement_of's; usage: a rank's node is not in the cluster. TERN_CHECK: those of simulate.
std::optional<PlannedProgram> program_of_plan(const ModelSpec&, const Cluster&, const Plan&,
                                              const PlacementOptions& = {});

}  // namespace tern
