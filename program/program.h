#pragma once
// Program: one training step as an instruction list for each rank. A rank here is a device of the pipeline. All ranks
// of the run at that device have the same list. Comments on collectives, MeshAxis and groups speak of ranks of the run.
// An instruction says what is computed, allocated, read, freed, sent. Validator, simulator and executor read the list.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/tier.h"

namespace tern {

enum class Opcode : uint8_t {  // what an instruction does
  forward,
  backward_input,
  backward_weight,
  recompute,
  reduce,  // sums gradients over the ranks of `axis`; with MeshAxis::none adds a tied table's two gradients on this rank.
           // micro −1: after the layer's last backward; m (axes none, tensor, keys): after micro-batch m's backward
  norm,    // the global norm of all gradients, and the refusal of what is not finite (unit −1, micro −1)
  update,  // a unit's optimizer step (micro −1). --update-in-backward: within the backward, reads the layer's `summand`
  send,    // a stage's output or input gradient to the rank `peer`
  recv,    // the arrival of what `peer` sends; takes as long as the matching SEND
  gather,  // makes a layer's parameters whole from the parts of the ranks of `axis`; micro −1: before the first forward,
           // ZeRO 1 and 2; m: for one pass over micro-batch m, ZeRO 3
  scatter,  // sums a layer's gradients over `axis`; a rank keeps its part. micro −1: of the step; m: of micro-batch m
  load,     // bytes from a lower tier to the device
  store,    // bytes from the device to a lower tier
  join,     // waits for a transfer (SEND, STORE, SCATTER) that ran beside the compute, and frees what the transfer read
  merge,    // at the end of a group of micro-batches (spec/sum_order.h): adds the kept sums in `reads` to the unit's
  // gradients, the last sum first. If the MERGE allocates a buffer, the MERGE then copies the gradients there and sets
  // the gradients to zero
};

/// The ranks that a collective is over.
enum class MeshAxis : uint8_t {
  none,
  replicas,         // ranks of a stage that have the same dense parameters: its context and data axes
  expert_replicas,  // ranks of a stage that have the same experts
  tables,           // one rank at each device of the pipeline that holds a tied table
  tensor,           // the ranks of a tensor group
  keys,             // the ranks of a tensor group that have the same key/value head
  all,              // every rank of every stage
};

/// What an instruction occupies. Each rank has one compute, one host_link (the rank's share of the host's link), one
/// gradient_link, one disk, and a link to every other rank. A resource runs one instruction at a time, in list order.
enum class Resource : uint8_t { compute, link, host_link, gradient_link, disk };

/// What a buffer holds. One buffer = (kind, unit, micro-batch, tier) on one rank.
enum class BufferKind : uint8_t {
  output,    // y of a unit: x of the next unit
  saved,     // kept by FORWARD (or made again by RECOMPUTE) for the backward, beside x
  gradient,  // dy of a unit's output
  left,      // left by BACKWARD_INPUT for BACKWARD_WEIGHT, beside dy
  remade,    // the y that RECOMPUTE computes again beside `saved`; nothing reads it
  held,      // what a layer keeps off the device, from STORE to LOAD; `unit`: the layer's first unit
  gathered,  // a layer's parameters, whole, for one pass
  gathered_experts,
  summand,  // a layer's gradient of one micro-batch, until its SCATTER or its UPDATEs have ended
  summand_experts,
  persistent,  // of a layer, all the step: parameters, gradients, optimizer states; `unit`: the layer's first unit
  kept_sum,    // a unit's summed gradients of complete groups, until their MERGE; `micro`: their last micro-batch
};
struct Buffer {  // the name of a buffer
  BufferKind kind;
  int unit, micro;
  Tier tier = Tier::device;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
struct BufferBytes {  // a buffer and its size
  Buffer buffer;
  int64_t bytes;
};

struct Instruction {  // one entry of the list
  Opcode op = Opcode::forward;
  int rank = 0, unit = 0, micro = 0;  // rank: a device of the pipeline; unit: index in ModelSpec::units
  Resource resource = Resource::compute;
  std::vector<Buffer> reads;           // alive before
  std::vector<BufferBytes> allocates;  // alive from here
  std::vector<Buffer> frees;           // gone after; may name what this instruction allocates
  int64_t workspace_bytes = 0;         // peak of temporaries while it runs, beside reads and allocates
  int64_t flops = 0, bytes_moved = 0;
  // What moves between ranks of the run, or between the device and lower tiers (LOAD, STORE, UPDATE of states on disk).
  int stage = 0, peer = -1;        // its virtual stage; the device that a SEND goes to, that a RECV comes from
  MeshAxis axis = MeshAxis::none;  // of a collective
  int64_t message_bytes = 0;       // what is moved (UPDATE, states on disk: read + written); collective: whole tensor
  int64_t exchanged_bytes =
      0;  // of whole tensors that a pass gathers by rows, or sums and scatters by rows, over the tensor group
  int64_t swapped_bytes =
      0;  // of this rank's tensors that a pass swaps over the context group of n ranks; 1/n of each tensor stays here
  int64_t ring_bytes =
      0;  // that a pass sends to the next rank of the context group; as many come from the previous rank
  // What a pass sends (and receives) over the expert group of n ranks if the router is even; the 1/n that stays here is
  // included. routed_bytes: rows to experts and back; told_bytes: numbers of rows. Actual rows: routed_link_bytes.
  int64_t routed_bytes = 0, told_bytes = 0;
  std::vector<int> waits;  // places of instructions that must have ended; `reads` and `resource` imply more of them
};

struct Program {  // the lists of all devices of the pipeline, one after another, or of one device
  int num_ranks = 1, num_units = 0, num_micro = 1;
  std::vector<Instruction> instructions;             // in issue order per rank
  std::vector<std::vector<BufferBytes>> resident{};  // per rank, or empty: alive before, during and after the step
  int64_t devices_per_rank = 1;  // devices of a stage's mesh: how many ranks of the run share each list
};

std::string_view name_of(Opcode);      // "FORWARD", …
std::string_view name_of(BufferKind);  // "output", …
std::string_view name_of(Resource);    // "compute", …
std::string_view name_of(MeshAxis);    // "replicas", …
/// "saved(unit 3, micro 0)"; off the device with ", host" or ", disk" before the closing parenthesis.
std::string to_string(const Buffer&);
/// "BACKWARD_INPUT unit 3 micro 0"; SEND and RECV name what travels, "SEND output(unit 3, micro 0) to rank 1".
std::string to_string(const Instruction&);

}  // namespace tern
