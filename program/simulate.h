#pragma once
// The simulator: replays a Program's allocations and frees, and, given times, puts its instructions on a virtual clock.

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/trace.h"

namespace tern {

/// Device bytes around one instruction, not counting what is resident: alive buffers before and after the instruction,
/// and the most alive during the instruction (buffers, temporaries, both).
struct InstructionBytes {
  int64_t before = 0, after = 0;
  int64_t peak_buffers = 0, workspace = 0;
  int64_t peak() const { return peak_buffers + workspace; }
};

/// Peaks of one rank on the device, not counting what is resident. buffers_at_peak + workspace_at_peak = peak_bytes.
/// `peak_buffers` and `peak_workspace` may come at different moments.
struct RankBytes {
  int64_t peak_bytes = 0;  // most of buffers and temporaries together
  int64_t peak_buffers = 0, peak_workspace = 0;
  int64_t buffers_at_peak = 0, workspace_at_peak = 0;
  size_t peak_place = 0;  // the first instruction that reaches peak_bytes
};

/// The result: peaks, and times if they were given.
struct Simulation {
  std::vector<RankBytes> ranks;
  std::vector<InstructionBytes> replay;  // entry i belongs to Program::instructions[i]
  std::vector<TierBytes> peak, at_end;   // per rank, what is resident included
  int64_t flops = 0;
  int64_t makespan = 0;             // ps
  std::vector<int64_t> start, end;  // ps; entry i belongs to Program::instructions[i]; a RECV's are its SEND's
  double seconds() const { return static_cast<double>(makespan) * 1e-12; }
};

/// Bytes  change in the order of the list, whatever runs beside the compute. What an instruction allocates counts from
///        the instruction's place on, temporaries count at that place alone, and what the instruction frees is gone
///        after that place. A JOIN frees what its transfer read.
/// Times  `picoseconds`: one for each instruction (empty: the result has no start, end and makespan). An instruction
///        starts when all instructions that it waits for (program/dependencies.h) have ended. Except a RECV: a RECV
///        starts and ends with its SEND.
/// Errors TERN_CHECK: times of another number of instructions. With times: instructions that wait for each other in a
///        circle, a SEND without a RECV, or a RECV without a SEND.
Simulation simulate(const Program&, std::span<const int64_t> picoseconds = {});

/// The events of chrome_trace, one for each instruction, with the device bytes of the replay. The simulation must have
/// times.
std::vector<TraceEvent> trace_of(const Program&, const Simulation&);

}  // namespace tern
