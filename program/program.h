#pragma once
// Program: a step as an explicit instruction list, shaped for many ranks. Each instruction says what it computes, which
// buffers it brings to life and which it ends, and what it costs; the validator, the simulator and the executor read
// the same list (DESIGN §1).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern {

enum class Opcode : uint8_t { forward, backward_input, backward_weight, recompute, update };
enum class Resource : uint8_t { compute };  // copy engines, links and disks come with the planner

/// What a buffer holds. One buffer = (kind, unit, micro-batch) on one rank.
enum class BufferKind : uint8_t {
  output,    // y of a unit, the next one's x
  saved,     // kept by FORWARD (or made again by RECOMPUTE) for the backward, beside x
  gradient,  // dy of a unit's output
  left,      // left by BACKWARD_INPUT for BACKWARD_WEIGHT, beside dy
};
struct Buffer {
  BufferKind kind;
  int unit, micro;
  friend bool operator==(const Buffer&, const Buffer&) = default;
};
struct BufferBytes {
  Buffer buffer;
  int64_t bytes;
};

struct Instruction {
  Opcode op = Opcode::forward;
  int rank = 0, unit = 0, micro = 0;  // unit: index in ModelSpec::units; UPDATE: unit -1, micro -1
  Resource resource = Resource::compute;
  std::vector<Buffer> reads;           // alive before
  std::vector<BufferBytes> allocates;  // alive from here
  std::vector<Buffer> frees;           // gone after; may name what this instruction allocates
  int64_t workspace_bytes = 0;         // peak of temporaries while it runs, beside reads and allocates
  int64_t flops = 0, bytes_moved = 0;
};

struct Program {
  int num_ranks = 1, num_units = 0, num_micro = 1;
  std::vector<Instruction> instructions;  // in issue order per rank
};

std::string_view name_of(Opcode);      // "FORWARD", …
std::string_view name_of(BufferKind);  // "output", …
/// "saved(unit 3, micro 0)".
std::string to_string(const Buffer&);
/// "BACKWARD_INPUT unit 3 micro 0".
std::string to_string(const Instruction&);

}  // namespace tern
