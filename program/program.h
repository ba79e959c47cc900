#pragma once
// Program: a step as an explicit instruction list, shaped for many ranks. Each instruction says what it computes, which
// buffers it brings to life and which it ends, and what it costs; the validator, the simulator and the executor read
// the same list (DESIGN §1).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spec/tier.h"

namespace tern {

enum class Opcode : uint8_t {
  forward,
  backward_input,
  backward_weight,
  recompute,
  reduce,   // at the end of a step: what different instructions added up apart becomes one gradient of the unit's
            // parameters (micro −1); of one rank: the two gradients of a tied table
  norm,     // the global norm of all gradients, and the refusal of what is not finite (unit −1, micro −1)
  update,   // the optimizer's step of a unit's parameters (micro −1); of Programs for many ranks: of all of a rank's
            // (unit −1)
  send,     // a stage's output or input gradient to the rank `peer`
  recv,     // its arrival; takes as long as the matching SEND
  gather,   // parameters together: before the first forward (micro −1), or where nothing hides it
  scatter,  // gradients summed over the devices of a stage, after the unit's last weight gradient (micro −1)
  load,     // bytes from a lower tier to the device
  store,    // bytes from the device to a lower tier
  reshard,  // from one unit's layout to the next one's, inside a stage
};

/// What an instruction occupies. Of each rank: its compute, its share of the host's link, its gradient link, its disk,
/// and one link to every other rank. One instruction at a time on each, in the order of the list.
enum class Resource : uint8_t { compute, link, host_link, gradient_link, disk };

/// What a buffer holds. One buffer = (kind, unit, micro-batch, tier) on one rank.
enum class BufferKind : uint8_t {
  output,      // y of a unit, the next one's x
  saved,       // kept by FORWARD (or made again by RECOMPUTE) for the backward, beside x
  gradient,    // dy of a unit's output
  left,        // left by BACKWARD_INPUT for BACKWARD_WEIGHT, beside dy
  held,        // of a whole stage (its first unit), from its FORWARD to the end of its backward; off the device of a
               // unit, from its STORE to its LOAD
  kept,        // of a whole stage, from its FORWARD to its BACKWARD_WEIGHT: the part that the weight gradient needs too
  persistent,  // of a unit, all the step: parameters, gradients, optimizer states
};
struct Buffer {
  BufferKind kind;
  int unit, micro;
  Tier tier = Tier::device;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
struct BufferBytes {
  Buffer buffer;
  int64_t bytes;
};

struct Instruction {
  Opcode op = Opcode::forward;
  int rank = 0, unit = 0, micro = 0;  // unit: index in ModelSpec::units
  Resource resource = Resource::compute;
  std::vector<Buffer> reads;           // alive before
  std::vector<BufferBytes> allocates;  // alive from here
  std::vector<Buffer> frees;           // gone after; may name what this instruction allocates
  int64_t workspace_bytes = 0;         // peak of temporaries while it runs, beside reads and allocates
  int64_t flops = 0, bytes_moved = 0;
  // Of Programs for many ranks:
  int stage = 0, peer = -1;  // virtual stage; SEND: to, RECV: from
  int64_t picoseconds = 0;   // priced by a table of costs
  std::vector<int> waits;    // places in the list that must have ended, beside what it reads and its resource
};

struct Program {
  int num_ranks = 1, num_units = 0, num_micro = 1;
  std::vector<Instruction> instructions;             // in issue order per rank
  std::vector<std::vector<BufferBytes>> resident{};  // per rank, or empty: alive before, during and after the step
};

std::string_view name_of(Opcode);      // "FORWARD", …
std::string_view name_of(BufferKind);  // "output", …
std::string_view name_of(Resource);    // "compute", …
/// "saved(unit 3, micro 0)"; with ", host" or ", disk" before the parenthesis closes, off the device.
std::string to_string(const Buffer&);
/// "BACKWARD_INPUT unit 3 micro 0"; SEND and RECV name what travels, "SEND output(unit 3, micro 0) to rank 1".
std::string to_string(const Instruction&);

}  // namespace tern
