#include "program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/json.h"

namespace tern {
namespace {

// Appends the events of one run; process ids are rank·stride + offset.
void append_run(std::string& out, std::span<const TraceEvent> events, std::string_view process, int stride,
                int offset) {
  int num_ranks = 0;
  for (const TraceEvent& e : events) num_ranks = std::max(num_ranks, e.rank + 1);
  auto to = std::back_inserter(out);
  const auto separator = [&] { return out.back() == '[' ? "\n" : ",\n"; };
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int pid = rank * stride + offset;
    const std::string name =
        quote_json(num_ranks == 1 ? std::string(process) : fmt::format("{}, rank {}", process, rank));
    fmt::format_to(to, R"({}{{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", separator(),
                   pid, name);
    fmt::format_to(to, R"({}{{"name":"thread_name","ph":"M","pid":{},"tid":0,"args":{{"name":"compute"}}}})",
                   separator(), pid);
  }
  for (const TraceEvent& e : events) {
    const int pid = e.rank * stride + offset;
    fmt::format_to(
        to,
        R"({}{{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"unit":{},"micro":{},)"
        R"("flops":{},"bytes_moved":{},"buffer_bytes":{},"peak_bytes":{}}}}})",
        separator(), quote_json(e.name), name_of(e.op), pid, static_cast<int>(e.resource), e.start_s * 1e6,
        e.duration_s * 1e6, e.unit, e.micro, e.flops, e.bytes_moved, e.buffer_bytes, e.peak_bytes);
    fmt::format_to(to, R"({}{{"name":"memory","ph":"C","pid":{},"ts":{:.3f},"args":{{"buffers":{},"workspace":{}}}}})",
                   separator(), pid, e.start_s * 1e6, e.buffer_bytes, e.peak_bytes - e.buffer_bytes);
  }
}

}  // namespace

TraceEvent trace_event(const Instruction& i, double start_s, double duration_s, int64_t buffer_bytes,
                       int64_t peak_bytes) {
  return {.name = to_string(i),
          .op = i.op,
          .rank = i.rank,
          .unit = i.unit,
          .micro = i.micro,
          .resource = i.resource,
          .start_s = start_s,
          .duration_s = duration_s,
          .flops = i.flops,
          .bytes_moved = i.bytes_moved,
          .buffer_bytes = buffer_bytes,
          .peak_bytes = peak_bytes};
}

std::string chrome_trace(std::span<const TraceEvent> events, std::string_view process) {
  std::string out = R"({"displayTimeUnit":"ms","traceEvents":[)";
  append_run(out, events, process, 1, 0);
  return out + "\n]}\n";
}

std::string chrome_trace(std::span<const TraceEvent> predicted, std::span<const TraceEvent> measured) {
  std::string out = R"({"displayTimeUnit":"ms","traceEvents":[)";
  append_run(out, predicted, "predicted", 2, 0);
  append_run(out, measured, "measured", 2, 1);
  return out + "\n]}\n";
}

}  // namespace tern
