#include "program/plan_program.h"

#include <map>

#include "base/error.h"
#include "hardware/machine.h"
#include "program/checksum.h"
#include "program/instruction_times.h"
#include "program/lower.h"
#include "program/shared_cores.h"

namespace tern {

int64_t most_instructions(const ModelSpec& spec, const Plan& plan) {
  const int64_t units = std::ssize(spec.units), stages = plan.choice.num_stages * plan.choice.chunks_per_stage;
  // Of a micro-batch: four passes a unit; a RECV, a SEND and its JOIN each way; the REDUCE of a tied table.
  int64_t each_micro = 4 * units + 6 * stages + 1;
  int64_t once = 2 * units + plan.choice.num_stages;  // UPDATEs, also of table copies; NORMs
  const Mesh& mesh = plan.choice.mesh;
  const bool shares = mesh.replicas() > 1 || mesh.expert_replicas() > 1;
  for (const PlannedLayers& l : plan.layers) {
    const int zero = shares ? l.strategy.zero : 0;
    if (zero >= 3) each_micro += l.count * 4;  // GATHERs of dense parameters and of experts, in two passes
    if (zero >= 2) each_micro += l.count * 6;  // REDUCEs over tensor groups and keys; two SCATTERs, their JOINs
    if (l.strategy.activations != Tier::device) each_micro += l.count * 3;  // STORE, its JOIN, LOAD
    once += l.count * 7;  // GATHERs, REDUCEs over tensor groups and keys, sums over replicas, the table copy's
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
    of_node.try_emplace(m.node.name, spec, plan.job, m, plan.choice.mesh, plan.choice.micro_batch, machines.size() > 1);
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
  const std::vector<int64_t> times = instruction_times(program, spec, placement, costs);
  const NodeType& node = machines[0].node;
  const Simulation s = shares_cores(node)
                           ? simulate(program, times, SharedCores{node.num_devices, node.devices_at_once})
                           : simulate(program, times);
  return PlannedProgram{checksum(program), std::ssize(program.instructions), s.makespan};
}

}  // namespace tern
