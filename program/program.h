#pragma once
// Program: one training step as an instruction list for each rank, or some steps of inference (program/inference_program.h).
// A rank here is a device of the pipeline. All ranks of the run at that device have the same list. Comments on collectives, MeshAxis and groups
// speak of ranks of the run.
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
  reduce,  // adds up the gradients of a tied table's two uses (MeshAxis::none), or of the ranks of `axis`;
           // micro −1: once a step, m: after the backward of micro-batch m (program/lower.h says when)
  norm,    // computes the norm of all gradients, and refuses gradients that are not finite (unit −1, micro −1)
  update,  // a unit's optimizer step (micro −1). With --update-in-backward it runs within the backward and reads the layer's `summand`
  send,    // sends a stage's output, or the gradient of its input, to the rank `peer`
  recv,    // receives what `peer` sends; takes as long as the matching SEND
  gather,  // makes a layer's parameters whole from the parts of the ranks of `axis`; micro −1 (ZeRO 1 and 2): before the
           // first forward; m (ZeRO 3): for one pass over micro-batch m
  scatter,  // sums a layer's gradients over `axis`; each rank keeps its part. micro −1: gradients of the step; m: of micro-batch m
  load,     // moves bytes from a lower tier to the device
  store,    // moves bytes from the device to a lower tier
  join,     // waits for a transfer (SEND, STORE, SCATTER) that ran beside the compute, and frees what the transfer read
  merge,    // at the end of a group of micro-batches (spec/sum_order.h): adds the kept sums in `reads` to the unit's
  // gradients, the last sum first. If the MERGE allocates a buffer, the MERGE then copies the gradients there and sets
  // the gradients to zero
};

/// The ranks that take part in a collective.
enum class MeshAxis : uint8_t {
  none,
  replicas,         // ranks of a stage that have the same dense parameters: its context and data axes
  expert_replicas,  // ranks of a stage that have the same experts
  tables,           // the ranks that hold a tied table: one at each device of the pipeline that has the table
  tensor,           // the ranks of a tensor group
  keys,             // the ranks of a tensor group that have the same key/value head
  all,              // every rank of every stage
};

/// What an instruction occupies. Each rank has one compute, one host_link (the rank's share of the host's link), one
/// gradient_link, one disk, and a link to every other rank. A resource runs one instruction at a time, in list order. RECVs take none: each runs while its SEND runs. exec/executor.h says where the executor departs from that.
enum class Resource : uint8_t { compute, link, host_link, gradient_link, disk };

/// What a buffer holds. One buffer = (kind, unit, micro-batch, tier, part) on one rank.
enum class BufferKind : uint8_t {
  output,    // a unit's output y, which is the next unit's input x
  saved,     // what FORWARD keeps (or RECOMPUTE makes again) for the backward, besides x
  gradient,  // dy: the gradient of a unit's output
  left,      // what BACKWARD_INPUT leaves for BACKWARD_WEIGHT, besides dy
  remade,    // the output that RECOMPUTE computes again besides `saved`; nothing reads it
  held,      // what a layer keeps off the device, from STORE to LOAD; `unit`: the layer's first unit
  gathered,  // a layer's whole parameters, gathered for one pass
  gathered_experts,
  summand,  // a layer's gradients of one micro-batch, until its SCATTER or its UPDATEs have ended
  summand_experts,
  persistent,  // a layer's parameters, gradients and optimizer states, alive throughout the step; `unit`: the layer's first unit
  kept_sum,  // a unit's gradients of complete groups, until a MERGE adds them; `micro`: the last micro-batch in the sum
  // Of inference (program/inference_program.h). The first two lie in slots, so they have no bytes of their own; the others are resident.
  extent,       // weights that one part of a FORWARD uses, from their LOAD to the part's end
  keys,         // a layer's keys and values, from their LOAD to their STORE; `unit`: of the layer's attention
  extent_slot,  // room for an extent; `unit`: the number of the slot
  keys_slot,    // room for a layer's keys and values; `unit`: the number of the slot
  weights,      // all weights that stay in memory
  pages,        // keys and values that stay in memory
  // Of a mixture whose experts are read as its router chooses them. The first two have no bytes of their own, as `extent`.
  expert,  // a matrix of an expert, from its LOAD until another takes its slot; micro 0. Resident: it was there before the list
  expected_expert,  // any matrix that one part of a FORWARD uses, where the router has not chosen yet: the bytes of its LOAD are an expectation
  expert_slot,      // room for a matrix of an expert; `unit`: the number of the slot
};
struct Buffer {  // the name of a buffer
  BufferKind kind;
  int unit, micro;
  Tier tier = Tier::device;
  int part =
      0;  // of an extent: the part of the FORWARD that uses it. Of an expert: twice its number in the unit, + 1 for its `down`
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
struct BufferBytes {  // a buffer and its size
  Buffer buffer;
  int64_t bytes;
};

struct Instruction {  // one entry of the list
  Opcode op = Opcode::forward;
  int rank = 0, unit = 0, micro = 0;  // rank: a device of the pipeline; unit: index in ModelSpec::units
  int part =
      0;  // of a FORWARD of inference that stands in parts; of the LOAD of an extent or an expert: the part that uses it
  Resource resource = Resource::compute;
  std::vector<Buffer> reads;           // buffers that must be alive before it
  std::vector<BufferBytes> allocates;  // buffers that are alive from its start
  std::vector<Buffer> frees;           // buffers that end with it; may name what this instruction allocates
  int64_t workspace_bytes = 0;         // peak of temporaries while it runs, besides reads and allocates
  int64_t flops = 0, bytes_moved = 0;
  // Where it runs, and what it moves between ranks of the run, or between the device and lower tiers (LOAD, STORE, UPDATE of states on disk).
  int stage = 0, peer = -1;        // its virtual stage; the device that a SEND goes to or a RECV comes from
  MeshAxis axis = MeshAxis::none;  // of a collective, and of a NORM or UPDATE that exchanges values between ranks
  int64_t message_bytes = 0;       // what is moved (UPDATE, states on disk: read + written); collective: whole tensor
  int64_t exchanged_bytes =
      0;  // of whole tensors that a pass gathers by rows, or sums and scatters by rows, over the tensor group
  int64_t swapped_bytes =
      0;  // of this rank's tensors that a pass swaps over the context group of n ranks; 1/n of each tensor stays here
  int64_t ring_bytes =
      0;  // that a pass sends to the next rank of the context group; as many come from the previous rank
  // Two kinds of bytes that a pass sends (and receives) over the expert group of n ranks, if all experts get equally many rows: rows,
  // to experts and back, and messages that say how many rows will come. Both include the 1/n that stays on this rank.
  int64_t routed_bytes = 0, told_bytes = 0;
  std::vector<int> waits;  // instructions that must end before, besides those that `reads` and `resource` imply
};

struct Program {  // the lists of all devices of the pipeline, one after another, or of one device
  int num_ranks = 1, num_units = 0, num_micro = 1;
  std::vector<Instruction> instructions;             // in issue order per rank
  std::vector<std::vector<BufferBytes>> resident{};  // a list per rank, or none: alive before, during, after the step
  int64_t devices_per_rank = 1;  // how many ranks of the run share each list: as many as a stage's mesh has devices
  // If not 0, the head is spread over the ranks (program/spread_head.h): the last head_parts units are its parts, one on each
  // rank, and the unit before them is the head's norm alone.
  int head_parts = 0;
};

std::string_view name_of(Opcode);      // "FORWARD", …
std::string_view name_of(BufferKind);  // "output", …
std::string_view name_of(Resource);    // "compute", …
std::string_view name_of(MeshAxis);    // "replicas", …
/// "saved(unit 3, micro 0)"; for a buffer off the device ", host" or ", disk", and for a part ", part 2", stands before the closing parenthesis.
/// Of an expert "expert(unit 3, 5 up)".
std::string to_string(const Buffer&);
/// "BACKWARD_INPUT unit 3 micro 0", "FORWARD unit 3 micro 0 part 2" (part 0 is not named); SEND and RECV name what travels,
/// "SEND output(unit 3, micro 0) to rank 1", and so do LOAD and STORE of inference, "LOAD keys(unit 3, micro 0)", "LOAD expert(unit 3, 5 up) micro 0".
std::string to_string(const Instruction&);

}  // namespace tern
