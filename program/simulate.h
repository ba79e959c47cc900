#pragma once
// The simulator: replays a Program's allocations and frees, and, given times, puts its instructions on a virtual clock.

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/trace.h"

namespace tern {

/// Device bytes around one instruction, beside what is resident: alive buffers before and after, and the most alive
/// (buffers, temporaries, both) during it.
struct InstructionBytes {
  int64_t before = 0, after = 0;
  int64_t peak_buffers = 0, workspace = 0;
  int64_t peak() const { return peak_buffers + workspace; }
};

/// Peaks of one rank on the device, beside what is resident. `buffers_at_peak + workspace_at_peak` = `peak_bytes`; the
/// peaks by class need not come together.
struct RankBytes {
  int64_t peak_bytes = 0;  // most of buffers and temporaries together
  int64_t peak_buffers = 0, peak_workspace = 0;
  int64_t buffers_at_peak = 0, workspace_at_peak = 0;
  size_t peak_place = 0;  // the first instruction that reaches peak_bytes
};

/// The result: peaks, and times if they were given.
struct Simulation {
  std::vector<RankBytes> ranks;
  std::vector<InstructionBytes> replay;  // as Program::instructions
  std::vector<TierBytes> peak, at_end;   // per rank, what is resident included
  int64_t flops = 0;
  int64_t makespan = 0;             // ps
  std::vector<int64_t> start, end;  // ps, as Program::instructions; a RECV's are its SEND's
  double seconds() const { return static_cast<double>(makespan) * 1e-12; }
};

/// Bytes  in the order of the list, whatever runs beside the compute: what an instruction allocates counts from its
///        place, and its temporaries there; what it frees is gone after it. What a transfer reads is freed by its
///        JOIN.
/// Times  `picoseconds` has one for each instruction (empty: the result has no start, end and makespan). An instruction
///        starts when all that it waits for (program/dependencies.h) has ended.
/// Errors TERN_CHECK: times of another number of instructions; with times, instructions that wait for each other in a
/// circle, or a
///        message without its other end.
Simulation simulate(const Program&, std::span<const int64_t> picoseconds = {});

/// The events of chrome_trace, one for each instruction, with the device bytes of the replay. The simulation must have
/// times.
std::vector<TraceEvent> trace_of(const Program&, const Simulation&);

}  // namespace tern
