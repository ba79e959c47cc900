#include <algorithm>
#include <array>

#include "base/error.h"
#include "exec/executor_impl.h"
#include "model/context_ranks.h"
#include "model/tensor_ranks.h"

namespace tern {

void require_executable(const Program& program, int num_ranks) {
  if (program.head_parts > 0)
    throw Error(
        ErrorKind::usage,
        "the step spreads the head over {} devices by rows of the vocabulary (vocabulary parallelism), which tern "
        "does not run yet: leave the head on the last device",
        program.head_parts);
  const int64_t devices = program.num_ranks * program.devices_per_rank;
  if (num_ranks > 1 && devices != num_ranks)
    throw Error(ErrorKind::usage, "this step needs {} devices in {} stages, the run has {} ranks", devices,
                program.num_ranks, num_ranks);
  if (num_ranks == 1 && devices != 1)
    throw Error(ErrorKind::usage,
                "this step needs {} devices, the run has one rank: give it as many (--ranks), or plan for one device",
                devices);
  for (const auto& rank : program.resident)
    for (const BufferBytes& b : rank)
      if (b.buffer.tier == Tier::host || (b.buffer.tier == Tier::disk && devices > 1))
        throw Error(ErrorKind::usage,
                    "the step keeps {} off the device, which tern does not do yet: plan without offload",
                    to_string(b.buffer));
  constexpr std::array kRun{
      Opcode::forward, Opcode::backward_input, Opcode::backward_weight, Opcode::recompute, Opcode::reduce, Opcode::norm,
      Opcode::update,  Opcode::merge,          Opcode::gather,          Opcode::scatter,   Opcode::join,   Opcode::send,
      Opcode::recv};
  const auto runs_over = [&](const Instruction& i) {
    if (i.axis == MeshAxis::none) return i.op != Opcode::gather && i.op != Opcode::scatter;
    if (num_ranks == 1) return false;
    if (i.op == Opcode::reduce && i.axis == MeshAxis::tables) return program.num_ranks > 1;
    if (i.op == Opcode::reduce && i.axis == MeshAxis::all) return program.num_ranks == 1;
    if (i.axis == MeshAxis::tensor || i.axis == MeshAxis::keys) return i.op == Opcode::reduce;
    return i.op == Opcode::norm ? i.axis == MeshAxis::all
                                : i.axis == MeshAxis::replicas || i.axis == MeshAxis::expert_replicas;
  };
  const auto ends_weights = [](const Buffer& b) {
    return b.kind == BufferKind::gathered || b.kind == BufferKind::gathered_experts;
  };
  for (const Instruction& i : program.instructions)
    if (i.op == Opcode::backward_input && std::ranges::any_of(i.frees, ends_weights))
      throw Error(
          ErrorKind::usage,
          "the step's weights of {} are gone when its weight gradients come (ZeRO 3 under a schedule that splits "
          "the backward), which tern does not run yet: plan with --zero 0,1,2, or with another schedule",
          to_string(i));
  for (const Instruction& i : program.instructions)
    if (std::find(kRun.begin(), kRun.end(), i.op) == kRun.end() || !runs_over(i))
      throw Error(ErrorKind::usage,
                  "the step has {}, which tern does not run yet: plan for one device, without offload", to_string(i));
}

namespace {

// States that lie on a disk by the Program lie there in the input too, and the other way round.
void require_stored(const Program& program, const ExecuteInput& in, bool updates) {
  const bool stores = std::ranges::any_of(program.resident, [](const std::vector<BufferBytes>& rank) {
    return std::ranges::any_of(rank, [](const BufferBytes& b) { return b.buffer.tier == Tier::disk; });
  });
  const bool stored = in.update && in.update->stored;
  TERN_CHECK(stores ? stored : !(updates && stored), "execute: optimizer states lie in a file by the {} alone",
             stores ? "Program" : "input");
}

// What units exchange by the Program they exchange in the input's groups, and the other way round.
void require_groups(const Program& program, const ExecuteInput& in) {
  const auto any = [&](int64_t Instruction::*bytes) {
    return std::ranges::any_of(program.instructions, [&](const Instruction& i) { return i.*bytes > 0; });
  };
  const bool exchanges = any(&Instruction::exchanged_bytes), swaps = any(&Instruction::swapped_bytes),
             passes = any(&Instruction::ring_bytes), routes = any(&Instruction::routed_bytes);
  const bool in_stages = program.num_ranks > 1, ring = in.compute.context && in.compute.context->ring;
  TERN_CHECK(exchanges == (in.compute.tensor != nullptr), "execute: matrices are shared out by the {} alone",
             exchanges ? "Program" : "input");
  // A stage may have no attention, or no mixture.
  TERN_CHECK(in.compute.context && !ring ? swaps || in_stages : !swaps, "execute: rows are shared out by the {} alone",
             swaps ? "Program" : "input");
  TERN_CHECK(ring ? passes || in_stages : !passes, "execute: keys go round a ring for the {} alone",
             passes ? "Program" : "input");
  TERN_CHECK(in.compute.experts ? routes || in_stages : !routes, "execute: experts are shared out by the {} alone",
             routes ? "Program" : "input");
}

}  // namespace

void require_input(const Program& program, const ExecuteInput& in) {
  const auto has = [&](Opcode op) {
    return std::any_of(program.instructions.begin(), program.instructions.end(),
                       [op](const Instruction& i) { return i.op == op; });
  };
  const bool training = has(Opcode::backward_weight), updates = has(Opcode::norm);
  require_stored(program, in, updates);
  TERN_CHECK(program.num_units == static_cast<int>(in.spec.units.size()), "execute: {} units, the model has {}",
             program.num_units, in.spec.units.size());
  TERN_CHECK(program.num_micro == static_cast<int>(in.micro_batches.size()),
             "execute: {} micro-batches given, the Program takes {}", in.micro_batches.size(), program.num_micro);
  TERN_CHECK(!training || in.gradients, "execute: a training program needs gradients");
  TERN_CHECK(!updates || in.update, "execute: NORM and UPDATE need an update");
  TERN_CHECK(!in.calls || (updates && program.num_ranks == 1), "execute: calls in a step of {} pipeline devices",
             program.num_ranks);
  TERN_CHECK(in.update || (!has(Opcode::merge) && program.devices_per_rank * program.num_ranks == 1),
             "execute: sums over groups and ranks need an update");
  TERN_CHECK(!updates || program.num_ranks > 1 || own_table_gradient(in.spec.units.back(), {}) == 0 ||
                 std::ranges::any_of(program.instructions,
                                     [](const Instruction& i) {
                                       return i.op == Opcode::reduce && i.axis == MeshAxis::none && i.unit == 0;
                                     }),
             "execute: a tied table, and no REDUCE joins it");
  TERN_CHECK(!in.update || !in.update->state.shares.any_weights_apart() || in.own_weights,
             "execute: weights are shared out, and nobody says where they are gathered");
  const auto any = [&](auto&& wanted) { return std::ranges::any_of(program.instructions, wanted); };
  TERN_CHECK(in.own_weights || !any([](const Instruction& i) { return i.op == Opcode::gather && i.micro >= 0; }),
             "execute: weights come together for a pass, and nobody says where");
  TERN_CHECK(in.compute.tensor ||
                 !any([](const Instruction& i) { return i.axis == MeshAxis::tensor || i.axis == MeshAxis::keys; }),
             "execute: a sum over a tensor group, and there is none");
  TERN_CHECK(!in.compute.tensor || in.compute.tensor->same_keys ||
                 !any([](const Instruction& i) { return i.axis == MeshAxis::keys; }),
             "execute: a sum over ranks with the same keys, and there are none");
  TERN_CHECK(in.robust || std::ranges::none_of(
                              program.instructions,
                              [](const Instruction& i) { return i.op == Opcode::reduce && i.axis == MeshAxis::all; }),
             "execute: gradients are aggregated, and nothing says how");
  require_groups(program, in);
  if (in.compute.tensor)
    for (const MicroBatch& batch : in.micro_batches)
      if (const auto rows = std::ssize(batch.tokens), ranks = std::ptrdiff_t{in.compute.tensor->comm.size()};
          rows % ranks != 0)
        throw Error(
            ErrorKind::usage,
            "a micro-batch of {} tokens cannot be shared out to {} ranks in equal parts; choose another --seq or "
            "--micro-batch",
            rows, ranks);
  TERN_CHECK(in.predicted.empty() || in.predicted.size() == program.instructions.size(),
             "execute: predicted bytes of {} instructions, the Program has {}", in.predicted.size(),
             program.instructions.size());
  if (program.num_ranks > 1 && in.replicas && in.replicas->size() > 1 && in.tables && in.tables->size() == 1 &&
      in.spec.head().tied)
    throw Error(
        ErrorKind::usage,
        "the step has replicas of a pipeline whose first device has the tied table's head too, which tern does not run "
        "yet: plan with --fix dp=1, or with another schedule");
}

}  // namespace tern
