#pragma once
// The executor: runs a Program on one rank, instruction by instruction, with the model's functions. It holds the
// buffers the Program names, brings them to life and ends them exactly where the Program says, counts bytes around
// every instruction and keeps time: the measured twin of program/simulate.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/comm.h"
#include "model/unit.h"
#include "program/program.h"
#include "program/simulate.h"
#include "program/trace.h"
#include "update/pass.h"
#include "update/robust_step.h"

namespace tern {

/// The samples of one micro-batch. `rows.tokens` looks into `tokens`, so it moves but does not copy.
struct MicroBatch {
  MicroBatch() = default;
  MicroBatch(std::vector<int32_t> tokens, std::vector<int64_t> starts, std::vector<int32_t> targets, const RopeTable*);
  MicroBatch(MicroBatch&&) = default;
  MicroBatch& operator=(MicroBatch&&) = default;

  std::vector<int32_t> tokens;   // (T)
  std::vector<int32_t> targets;  // (T), < 0: no loss
  Rows rows;
  int64_t first_row = 0;                  // its number in the step's batch, which keys dropout (DropoutPlace)
  std::optional<double> loss_scale = {};  // its own, in the place of ExecuteInput's
  int64_t num_targets() const;
};
/// What rank `index` of a context group of so many has of it: an equal number of rows, in rank order.
/// Errors  TERN_CHECK: rows that they do not divide.
MicroBatch context_part(const MicroBatch&, int index, int ranks);

/// What the bytes of one instruction were, where they are not what the Program says.
struct ByteMismatch {
  size_t place = 0;
  std::string what;  // "[12] FORWARD unit 3 micro 0: 4096 bytes alive after it, the Program says 4100"
};

struct ExecuteInput {
  const ModelSpec& spec;
  WeightSource weights;
  ModelWeights* gradients = nullptr;  // added to; nullptr for a forward program
  std::span<const MicroBatch> micro_batches;
  double loss_scale = 1.0;  // gradients are those of loss_scale · Σ −log p over the targets
  Compute compute;          // its arena gives the buffers; nothing else may use the arena's activations meanwhile
  const UpdatePass* update =
      nullptr;                   // NORM, UPDATE, MERGE, REDUCE over ranks work on this; its gradients are `gradients`
  RobustStep* robust = nullptr;  // what REDUCE over all ranks works on, of a Program that aggregates gradients
  Comm* world = nullptr;         // all ranks of the step; nullptr: one
  // replicas: the ranks of this stage, or of this rank's part of each matrix (tensor groups); nullptr: the whole world. tables:
  // the ranks that hold the tied table; nullptr: none.
  Comm *replicas = nullptr, *tables = nullptr;
  // Of ZeRO 3: the model that `weights` lends from. It holds this rank's parts (allocate_own_weights), as update->weights does.
  // GATHER puts a layer's whole weights in their place until the Program ends them.
  ModelWeights* own_weights = nullptr;
  std::vector<std::vector<Buffer>>
      arrivals{};  // of pipelines: for each stage, the buffers that it sends to this one, in order
                   // (arrivals_of)
  std::optional<int64_t> step_targets = {};          // of all ranks; absent: of these micro-batches
  std::span<const InstructionBytes> predicted = {};  // simulate(program).replay; empty: simulated here
  Clock& clock = real_clock();                       // of the trace
  bool sums_beside = true;  // sums over replicas run beside the compute; false: in their places, with the same bits
};

struct ExecuteResult {
  double loss_sum = 0;               // Σ -log p over targets, micro-batches in order
  std::vector<double> losses;        // of each micro-batch, in order
  int64_t num_targets = 0;           // of these micro-batches
  std::optional<UpdateNorm> update;  // of NORM; none if no token had a loss: then NORM and UPDATE change nothing
  // A message of the step arrived changed, as NORM's settle of the transport's ledger found. The step ends there, on
  // all ranks alike: nothing was updated, gradients are of no use, and the rest of the result says nothing.
  std::optional<ChangedMessage> changed;
  LinkBytes links;                        // counted: sent and received by this rank
  std::vector<InstructionBytes> counted;  // as Program::instructions
  RankBytes bytes;                        // counted peaks
  int64_t message_bytes = 0;              // of pipelines: copies of messages, at their most, beside the counted
  std::vector<ByteMismatch>
      mismatches;  // empty: counted bytes equal the Program's, instruction by instruction (the temporaries of a
                   // shared-out UPDATE are only required not to exceed them)
  std::vector<TraceEvent> trace;  // measured, from begin_ns on
  int64_t begin_ns = 0;           // on the clock
  double seconds = 0;
};

/// Errors: usage, naming the first thing in the Program that this executor does not run: another number of devices than ranks;
/// ZeRO 3 where a backward is split; bytes off the device, but for optimizer states on the disk of one device
void require_executable(const Program&, int num_ranks = 1);

/// Runs the Program once. A forward program (no BACKWARD) takes the losses without gradients.
/// Ranks     All of a world call it with the same Program. REDUCE over replicas sums the gradients of a layer's dense
///           parameters, or of its experts, as one vector, in comm/comm.h's order; REDUCE over all is aggregate_gradients of
///           `robust`. Where a layer is shared out (the update's Shares), SCATTER leaves each rank the sum of its own part,
///           with ZeRO 2 and 3 added to the sums of earlier micro-batches, and GATHER brings the other ranks' weights, for the
///           step or (ZeRO 3) for one pass through the layer. In NORM every rank has the same sums. If one rank refuses them, all
///           learn of it before anything is changed, and all throw. If a message of the step came changed, all end the step before
///           that, without throwing (ExecuteResult::changed). The bytes that a rank sends and receives are compared with
///           link_bytes (program/link_bytes.h).
/// Beside    Without stages a REDUCE or SCATTER over replicas runs on a thread of its own (exec/sums_beside.h), while this one goes on
///           to what is next in the list and neither sends nor receives, until NORM, or the JOIN of what it reads. What else sends or
///           receives waits for it, so all ranks' messages have the order of the list. In the trace it has the time that it took.
/// Early     An UPDATE that reads its layer's gradients runs within the backward, before NORM. It gives the bits of an UPDATE after NORM,
///           as nothing is clipped; NORM then only adds up the squares. A gradient that is not finite ends the step half done.
/// Stages    Every rank runs its own list; ranks are numbered as in MeshPlace (update/shares.h).
///           Each is given all micro-batches of its replica.
///           SEND copies what it reads; the copy stays until the step ends and is not among the counted bytes. A REDUCE or SCATTER
///           of the whole step over replicas waits for NORM; those of a tied table's two gradients run first.
///           A rank's messages are compared with link_bytes only at the end, all together.
/// Counting  `counted` holds the most of the arena's activations and of its workspace during an instruction, beside what
///           was there before the call.
/// Errors    as require_executable; usage: a micro-batch whose tokens a tensor group cannot share equally, replicas of a
///           pipeline whose first device has the tied head too; TERN_CHECK: micro-batches, gradients, update or robust that the
///           Program needs and that are not given, a tied table that no REDUCE joins before NORM; in debug builds also any
///           mismatch. diverged: as gradient_norm.
///           What the model's functions throw passes through; the buffers are freed.
ExecuteResult execute(const Program&, const ExecuteInput&);

/// What each rank of a pipeline's Program (of all ranks, program/lower.h) sends to `rank`, in order.
std::vector<std::vector<Buffer>> arrivals_of(const Program& all, int rank);

/// The sentence for people about result.mismatches; empty if there are none.
std::string describe_mismatches(const ExecuteResult&);

}  // namespace tern
