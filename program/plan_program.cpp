#include "program/plan_program.h"

#include <map>

#include "base/error.h"
#include "hardware/machine.h"
#include "program/checksum.h"
#include "program/instruction_times.h"
#include "program/lower.h"
#include "program/simulate.h"

namespace tern {

int64_t most_instructions(const ModelSpec& spec, const Plan& plan) {
  const int64_t units = std::ssize(spec.units), stages = plan.choice.num_stages * plan.choice.chunks_per_stage;
  int64_t each_micro = 4 * units + 6 * stages + 1;  // passes; RECVs, SENDs and their JOINs; tables
  int64_t once = 2 * units + plan.choice.num_stages;
  for (const PlannedLayers& l : plan.layers) {
    const LayerStrategy& s = l.strategy;
    const int zero = plan.choice.mesh.replicas() > 1 ? s.zero : 0;  // dense parameters and experts each have their own:
    const int64_t gathers = zero >= 3 ? 2 : 0, sums = zero >= 2 ? 6 : 0, moves = s.activations != Tier::device;
    each_micro += l.count * (2 * gathers + sums + 3 * moves);
    once += l.count * 7;
  }
  return each_micro * plan.choice.num_micro + once;
}

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
