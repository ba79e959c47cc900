#include "program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "base/json.h"

namespace tern {
namespace {

// A track of a rank: its resources in order; then, for every peer, what it sends there and what comes from there, since
// these are two links and may overlap in time.
struct Track {
  int thread;
  std::string name;
};
Track track_of(const TraceEvent& e) {
  constexpr int kFirstLink = 8;
  if (e.resource != Resource::link) return {static_cast<int>(e.resource), std::string(name_of(e.resource))};
  if (e.op == Opcode::recv) return {kFirstLink + 2 * e.peer + 1, fmt::format("link from rank {}", e.peer)};
  return {kFirstLink + 2 * e.peer, fmt::format("link to rank {}", e.peer)};
}

// Appends the events of one run; process ids are rank·stride + offset.
void append_run(std::string& out, std::span<const TraceEvent> events, std::string_view process, int stride,
                int offset) {
  int num_ranks = 0;
  std::map<std::pair<int, int>, std::string> others;  // (rank, thread) beside compute
  for (const TraceEvent& e : events) {
    num_ranks = std::max(num_ranks, e.rank + 1);
    if (e.resource == Resource::compute) continue;
    const Track t = track_of(e);
    others.try_emplace({e.rank, t.thread}, t.name);
  }
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
    for (auto other = others.lower_bound({rank, 0}); other != others.end() && other->first.first == rank; ++other)
      fmt::format_to(to, R"({}{{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", separator(),
                     pid, other->first.second, quote_json(other->second));
  }
  for (const TraceEvent& e : events) {
    const int pid = e.rank * stride + offset;
    fmt::format_to(
        to,
        R"({}{{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"unit":{},"micro":{},)"
        R"("flops":{},"bytes_moved":{},"message_bytes":{},"buffer_bytes":{},"peak_bytes":{}}}}})",
        separator(), quote_json(e.name), name_of(e.op), pid, track_of(e).thread, e.start_s * 1e6, e.duration_s * 1e6,
        e.unit, e.micro, e.flops, e.bytes_moved, e.message_bytes, e.buffer_bytes, e.peak_bytes);
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
          .peer = i.peer,
          .resource = i.resource,
          .start_s = start_s,
          .duration_s = duration_s,
          .flops = i.flops,
          .bytes_moved = i.bytes_moved,
          .message_bytes = i.message_bytes,
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
