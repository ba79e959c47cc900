#pragma once
// The simulator: replays a Program's allocations and frees, counts bytes, and prices time on a virtual clock. Bytes are
// exact (the executor's counts must equal them); time is a rough estimate until the planner brings calibrated rates.

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/trace.h"

namespace tern {

/// Bytes around one instruction: alive buffers before and after, and the most alive (buffers, temporaries, both) during
/// it.
struct InstructionBytes {
  int64_t before = 0, after = 0;
  int64_t peak_buffers = 0, workspace = 0;
  int64_t peak() const { return peak_buffers + workspace; }
};

/// Peaks of one rank. `buffers_at_peak + workspace_at_peak` = `peak_bytes`; the peaks by class need not come together.
struct RankBytes {
  int64_t peak_bytes = 0;  // most of buffers and temporaries together
  int64_t peak_buffers = 0, peak_workspace = 0;
  int64_t buffers_at_peak = 0, workspace_at_peak = 0;
  size_t peak_place = 0;  // the first instruction that reaches peak_bytes
};

/// What the virtual clock assumes: an instruction takes max(flops / flops_per_s, bytes_moved / bytes_per_s).
struct Rates {
  double flops_per_s = 1e11, bytes_per_s = 1e10;
};

struct Simulation {
  std::vector<RankBytes> ranks;
  std::vector<InstructionBytes> replay;  // as Program::instructions
  int64_t flops = 0;
  double seconds = 0;
  std::vector<TraceEvent> trace;
};

/// The Program must be valid (check_valid). Units: bytes, seconds.
Simulation simulate(const Program&, const Rates& = {});

}  // namespace tern
