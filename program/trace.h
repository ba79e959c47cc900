#pragma once
// Traces in the Chrome/Perfetto JSON format. Predicted and measured traces have one format, so that they can be compared side by
// side (open in ui.perfetto.dev or chrome://tracing).
// Source: the Trace Event Format document; we use complete events ("X"), counters ("C") and metadata ("M").

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "program/program.h"

namespace tern {

/// An instruction with its time, in seconds, and its bytes.
struct TraceEvent {
  std::string name;  // "FORWARD unit 3 micro 0"
  Opcode op = Opcode::forward;
  int rank = 0, unit = 0, micro = 0, peer = -1;
  Resource resource = Resource::compute;
  double start_s = 0, duration_s = 0;
  int64_t flops = 0, bytes_moved = 0, message_bytes = 0;  // Instruction says what these are
  int64_t buffer_bytes = 0, peak_bytes = 0;               // buffers alive; the peak of buffers and temporaries together
};

/// The event of an instruction.
TraceEvent trace_event(const Instruction&, double start_s, double duration_s, int64_t buffer_bytes, int64_t peak_bytes);

/// One JSON document. `process` names the run ("predicted", "measured"). Each rank is a process of the trace. Its threads are
/// its resources, except that the link becomes two threads for each peer: one to the peer, one from the peer. Events of one thread never
/// overlap, as viewers want it: what runs beside others of its resource goes to a further thread ("disk", "disk 2", …). The thread of compute
/// and all threads with events have names.
/// Times are written in microseconds with three decimals: begins and ends are rounded, and a duration is their difference.
std::string chrome_trace(std::span<const TraceEvent>, std::string_view process);
/// Two runs in one document, as processes 2·rank and 2·rank + 1.
std::string chrome_trace(std::span<const TraceEvent> predicted, std::span<const TraceEvent> measured);

}  // namespace tern
