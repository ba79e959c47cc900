#pragma once
// The trace of one step on all ranks (--trace): where it may go, and its events, measured and predicted.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "program/program.h"
#include "program/trace.h"

namespace tern {

class Io;

/// Checks before a run that a trace may be written to `path`; an empty path means no trace. Errors: usage: no such folder, a
/// folder, a file that holds something else.
void require_trace_place(const std::string& path, Io&);

/// What all ranks measured, by rank, in seconds from the earliest begin. `all` has one list per pipeline device, which all
/// replicas of the device share. Every rank calls it. begin_ns: the origin of this rank's times on its clock.
std::vector<TraceEvent> gather_trace(const Program& all, const std::vector<TraceEvent>& mine, int64_t begin_ns, Comm&);
/// The simulator's prediction for the same lists on a machine of flops_per_s whose disk of optimizer states moves states_bytes_per_s (0: not
/// known); replicas get equal events.
std::vector<TraceEvent> predicted_trace(const Program& all, double flops_per_s, int ranks,
                                        double states_bytes_per_s = 0);

}  // namespace tern
