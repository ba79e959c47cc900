#include <algorithm>
#include <array>

#include "base/error.h"
#include "exec/executor.h"

namespace tern {

void require_executable(const Program& program, int num_ranks) {
  const int64_t devices = program.num_ranks * program.devices_per_rank;
  if (num_ranks > 1 && devices != num_ranks)
    throw Error(ErrorKind::usage, "this step needs {} devices in {} stages, the run has {} ranks", devices,
                program.num_ranks, num_ranks);
  if (num_ranks == 1 && devices != 1)
    throw Error(ErrorKind::usage, "this step needs {} devices; tern trains on one so far: plan for one device",
                devices);
  for (const auto& rank : program.resident)
    for (const BufferBytes& b : rank)
      if (b.buffer.tier != Tier::device)
        throw Error(ErrorKind::usage,
                    "the step keeps {} off the device, which tern does not do yet: plan without offload",
                    to_string(b.buffer));
  constexpr std::array kRun{
      Opcode::forward, Opcode::backward_input, Opcode::backward_weight, Opcode::recompute, Opcode::reduce, Opcode::norm,
      Opcode::update,  Opcode::merge,          Opcode::gather,          Opcode::scatter,   Opcode::join,   Opcode::send,
      Opcode::recv};
  const auto runs_over = [&](const Instruction& i) {
    if (i.axis == MeshAxis::none) return true;
    if (num_ranks == 1) return false;
    if (program.num_ranks > 1 && (i.op == Opcode::gather || i.op == Opcode::scatter)) return false;
    if (i.op == Opcode::reduce && i.axis == MeshAxis::tables) return program.num_ranks > 1;
    if (i.op == Opcode::reduce && i.axis == MeshAxis::all) return program.num_ranks == 1;
    if (i.axis == MeshAxis::tensor || i.axis == MeshAxis::keys) return program.num_ranks == 1;
    return i.op == Opcode::norm ? i.axis == MeshAxis::all
                                : i.axis == MeshAxis::replicas || i.axis == MeshAxis::expert_replicas;
  };
  for (const Instruction& i : program.instructions)
    if (std::find(kRun.begin(), kRun.end(), i.op) == kRun.end() || !runs_over(i))
      throw Error(ErrorKind::usage,
                  "the step has {}, which tern does not run yet: plan for one device, without offload", to_string(i));
}

}  // namespace tern
