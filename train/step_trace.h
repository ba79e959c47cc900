#pragma once
// The trace of one step on all ranks (--trace): where it may be written, and its events, measured and predicted.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "comm/comm.h"
#include "program/program.h"
#include "program/trace.h"

namespace tern {

class Io;

/// Checks before a run that a trace may be written to `path`; an empty path means no trace. Errors: usage: the folder does not exist, the
/// path is a folder, or it is a file that holds something else.
void require_trace_place(const std::string& path, Io&);

/// The events that all ranks measured, by rank, in seconds from the moment at which the first rank began. `all` has one list for each device
/// of the pipeline, which all ranks at the device run. `begin_ns`: the moment, on this rank's clock, from which the times of `mine` count.
/// All ranks call it.
std::vector<TraceEvent> gather_trace(const Program& all, const std::vector<TraceEvent>& mine, int64_t begin_ns, Comm&);
/// The events that the simulator predicts for the same lists on a machine of `flops_per_s`, whose disk of optimizer states moves
/// `states_bytes_per_s` (0: not known). Ranks at one device have equal events.
std::vector<TraceEvent> predicted_trace(const Program& all, double flops_per_s, int ranks,
                                        double states_bytes_per_s = 0);

}  // namespace tern
