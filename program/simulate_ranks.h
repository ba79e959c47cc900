#pragma once
// The simulator of Programs for many ranks: a virtual clock in picoseconds, each resource one instruction at a time,
// and every allocation and release replayed in the order of that clock, per rank and tier.

#include <cstdint>
#include <vector>

#include "program/program.h"
#include "program/trace.h"

namespace tern {

struct RanksSimulation {
  int64_t makespan = 0;             // ps
  std::vector<int64_t> start, end;  // ps, as Program::instructions; a RECV's are its SEND's
  std::vector<TierBytes> peak;      // bytes, per rank: buffers and, on the device, temporaries
  std::vector<TierBytes> at_end;    // bytes, per rank: what is still alive
};

/// Times from Instruction::picoseconds. An instruction starts when all that it waits for (program/dependencies.h) has
/// ended. What it allocates, and its temporaries, count from its start; what it frees and the temporaries are gone at
/// its end. At one moment changes come in the order of the list, an instruction's start before its end. Errors:
/// TERN_CHECK: a Program that is not sound (validate_ranks), the first fault named.
RanksSimulation simulate_ranks(const Program&);

/// For chrome_trace: an event per instruction, with the device bytes alive on its rank when it starts.
std::vector<TraceEvent> trace_of(const Program&, const RanksSimulation&);

}  // namespace tern
