#pragma once
// The executor: runs a Program on one rank, instruction by instruction. It calls the model's functions, allocates and frees each buffer
// exactly where the Program says, and measures the bytes and the time of every instruction. program/simulate.h predicts these
// bytes and times.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/comm.h"
#include "exec/micro_batch.h"
#include "exec/step_calls.h"
#include "model/unit.h"
#include "program/program.h"
#include "program/simulate.h"
#include "program/trace.h"
#include "update/pass.h"
#include "update/robust_step.h"

namespace tern {

/// A count of bytes of one instruction that differs from the Program's.
struct ByteMismatch {
  size_t place = 0;  // of the instruction in Program::instructions
  std::string what;  // "[12] FORWARD unit 3 micro 0: 4096 bytes alive after it, the Program says 4100"
};

/// What a Program works on, on one rank. Only `spec`, `weights`, `micro_batches` and `compute` are needed by every Program.
struct ExecuteInput {
  const ModelSpec& spec;                      // in a tensor group: this rank's part of the model (tensor_part)
  WeightSource weights;                       // lends the weights of one unit at a time
  ModelWeights* gradients = nullptr;          // passes add to them; nullptr for a forward Program
  std::span<const MicroBatch> micro_batches;  // entry m is micro-batch m of the Program
  double loss_scale = 1.0;                    // gradients are those of loss_scale · Σ −log p over the targets
  // Buffers come from compute.arena. During the run nothing else may allocate activations from that arena.
  Compute compute;
  // The UpdatePass that NORM, UPDATE, MERGE and sums over ranks use; its gradients are views of `gradients` or, where ranks share gradients out, its own tensors.
  const UpdatePass* update = nullptr;
  // Needed if the Program aggregates gradients: REDUCE over all ranks uses it.
  RobustStep* robust = nullptr;
  Comm* world = nullptr;  // all ranks of the step; nullptr: this rank is alone
  // The ranks that have the same layers and the same part of each matrix as this rank; nullptr: all ranks of the world.
  Comm* replicas = nullptr;
  // The ranks of `replicas` that have the same experts as this rank; nullptr: all ranks of `replicas`.
  Comm* same_experts = nullptr;
  // The rank with the embedding and the rank with the head that have this rank's replica number and tensor place. nullptr: no stages, or this rank is none of the two.
  Comm* tables = nullptr;
  // Needed for ZeRO 3: the model whose weights `weights` lends. It holds this rank's parts (allocate_own_weights), as update->weights
  // does. GATHER replaces a layer's parts by its whole weights, until the Program frees the gathered buffer.
  ModelWeights* own_weights = nullptr;
  // Needed for pipelines (arrivals_of, exec/stage_messages.h): entry d lists the buffers that device d sends to this rank's device, in order.
  std::vector<std::vector<Buffer>> arrivals{};
  // The number of targets with a loss, over all ranks; absent: the number in `micro_batches`.
  std::optional<int64_t> step_targets = {};
  // simulate(program).replay; empty: execute simulates the Program itself.
  std::span<const InstructionBytes> predicted = {};
  // Allowed only if the Program has NORM, is of one pipeline device and ends each micro-batch before the next begins (TERN_CHECK).
  const StepCalls* calls = nullptr;
  Clock& clock = real_clock();  // times of the trace
  // Without stages: whether sums over replicas run beside the compute, or at their place in the list. Both give the same bits.
  bool sums_beside = true;
};

/// The result of one run of a Program on this rank.
struct ExecuteResult {
  // loss_sum, losses and num_targets are 0 and empty on a device of a pipeline that does not run the head. In a tensor group that trains,
  // the first rank alone has the losses; the others have zeros in loss_sum and losses. num_targets is the same on all ranks of the group.
  double loss_sum = 0;         // Σ −log p over the targets, in nats, micro-batches in order
  std::vector<double> losses;  // the same sum for each micro-batch alone, in order
  int64_t num_targets = 0;     // targets with a loss in these micro-batches
  // What NORM found; absent if no token had a loss: NORM and UPDATE then changed nothing.
  std::optional<UpdateNorm> update;
  // If set, NORM learned from the transport's ledger that a message of this step arrived changed. All ranks then ended
  // the step there. Nothing was updated. The gradients and the other members of this result must not be used.
  std::optional<ChangedMessage> changed;
  LinkBytes links;                        // bytes that this rank sent and received, counted
  std::vector<InstructionBytes> counted;  // entry i belongs to Program::instructions[i]
  RankBytes bytes;                        // counted peaks
  int64_t message_bytes = 0;              // pipelines: the peak of the copies of messages, which `bytes` leaves out
  // Empty if the counted bytes of every instruction equal the Program's. One difference is no mismatch: in a run that shares out any
  // parameter, an UPDATE may have smaller temporaries than the Program says.
  std::vector<ByteMismatch> mismatches;
  std::vector<TraceEvent> trace;  // measured; times count from begin_ns
  int64_t begin_ns = 0;           // on ExecuteInput::clock
  double seconds = 0;             // duration of the run
};

/// Refuses a Program that this executor cannot run on `num_ranks` ranks.
/// Errors  usage, naming the first fault: `num_ranks`, the ranks of the run, is not Program::num_ranks · devices_per_rank; ZeRO 3
///         with a split backward; bytes off the device, except states on the disk in a run of one rank; a spread head
///         (Program::head_parts); an unknown instruction.
void require_executable(const Program&, int num_ranks = 1);

/// Runs the Program once. A forward Program (without backward passes) computes the losses and does not touch gradients.
/// Ranks     All ranks of a world call execute with the Program of one step; ranks at one device of the pipeline have the same list. A
///           REDUCE over replicas sums the gradients of a layer's dense parameters, or of its experts, as one vector in the order of
///           comm/comm.h. A REDUCE over all ranks calls aggregate_gradients with `robust`. If a layer is shared out (the update's Shares),
///           SCATTER leaves each rank the sum of the rank's part; ZeRO 2 and 3 add this sum to the sums of earlier micro-batches.
///           GATHER brings the other ranks' weights, for the step or (ZeRO 3) for one pass. NORM gets the same norm on
///           every rank. If one rank's gradients are refused, all ranks learn of the refusal before anything is changed, and all throw. If a
///           message of the step came changed, all ranks end the step at NORM without throwing (ExecuteResult::changed). The bytes that a
///           rank sends and receives are compared with link_bytes (program/link_bytes.h).
/// Beside    Without stages, a second thread runs each REDUCE or SCATTER over replicas (exec/sums_beside.h). The computing thread goes
///           on with the list. Three kinds of instruction wait until the sum has ended: NORM, the JOIN that frees what the sum reads, and whatever
///           else may send or receive. So all ranks send messages in the order of the list. The trace shows the time that the sum took.
/// Early     An UPDATE that reads its layer's `summand` (--update-in-backward) runs within the backward, before NORM. The bits are those
///           of an UPDATE after NORM, as nothing is clipped. NORM then only adds up the squares. A gradient that is not finite ends the
///           step: by then some layers may be updated and others not.
/// Stages    Each rank runs its device's list, for its data share's micro-batches; MeshPlace (update/shares.h) numbers the ranks. SEND sends a
///           copy, which stays until the step ends; message_bytes counts it. When NORM begins, the step's sums over `tables` (micro −1)
///           run, then its sums over replicas; each of the two kinds in the list's order. The REDUCE over `tables` is in the list of the head's device
///           alone, which has a copy of the table; the embedding's device joins this sum when its NORM begins. link_bytes are compared at the end.
/// Counting  `counted` holds the peaks of the arena's activations and of its workspace during each instruction, less what was there
///           before the call.
/// Errors    those of require_executable and of gradient_norm (diverged); usage: a micro-batch whose tokens a tensor group cannot share
///           equally; a pipeline with replicas whose first device holds both the embedding and the tied head. TERN_CHECK: the Program needs
///           micro-batches, gradients, update or robust that the input lacks; a Program without stages has a tied table and no REDUCE that adds its two gradients;
///           (debug builds) any mismatch. If the model's functions throw, the buffers are freed and the error passes through.
ExecuteResult execute(const Program&, const ExecuteInput&);

/// A sentence for people about result.mismatches; empty if there are none.
std::string describe_mismatches(const ExecuteResult&);

}  // namespace tern
