#include "program/plan_program.h"

#include <map>

#include "base/error.h"
#include "hardware/machine.h"
#include "program/checksum.h"
#include "program/instruction_times.h"
#include "program/lower.h"
#include "program/simulate.h"

namespace tern {
namespace {

// Passes of units, and for each layer and micro-batch what may be gathered, scattered, stored, loaded and joined.
int64_t most_instructions(const ModelSpec& spec, const Plan& plan) {
  const int64_t units = std::ssize(spec.units), stages = std::ssize(plan.stages);
  return (4 * units + 8 * stages) * plan.choice.num_micro + 8 * units;
}

}  // namespace

std::optional<PlannedProgram> program_of_plan(const ModelSpec& spec, const Cluster& cluster, const Plan& plan,
                                              const PlacementOptions& options) {
  if (plan.stages.empty() || most_instructions(spec, plan) > kMostPlannedInstructions) return std::nullopt;
  const Placement placement = placement_of(spec, plan, options);
  std::map<std::string, LayerCosts> of_node;
  const std::vector<Machine> machines = machines_of(cluster);
  for (const Machine& m : machines)
    of_node.try_emplace(m.node.name, spec, plan.job, m, plan.choice.mesh, plan.choice.micro_batch);
  PlacementCosts costs;
  for (const PlannedRank& rank : plan.ranks) {
    const auto of = of_node.find(rank.node);
    if (of == of_node.end())
      throw Error(ErrorKind::usage, "the plan has a rank on '{}', which '{}' does not have: give its own --hardware",
                  rank.node, cluster.name);
    costs.layers.push_back(&of->second);
  }
  for (const PlannedStage& s : plan.stages) costs.links.push_back({s.send_forward_ps, s.send_backward_ps});
  const Program program = lower(spec, placement);
  const Simulation s = simulate(program, instruction_times(program, spec, placement, costs));
  return PlannedProgram{checksum(program), std::ssize(program.instructions), s.makespan};
}

}  // namespace tern
