#include "program/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <numeric>
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

// An event's place among the threads of its rank, in whole nanoseconds.
struct PlacedEvent {
  int thread = 0;
  int64_t begin_ns = 0, end_ns = 0;
};

// Whole picoseconds first: where one simulated event ends as the next one begins, both round to the same nanosecond.
int64_t nanoseconds(double seconds) { return std::llround(std::round(seconds * 1e12) / 1000); }

// Viewers want events of one thread not to overlap, and a disk may do several things at a time. So a track has as many lanes as it takes:
// each event goes to the first one that is free. `names`: of each (rank, thread).
std::vector<PlacedEvent> place_events(std::span<const TraceEvent> events,
                                      std::map<std::pair<int, int>, std::string>& names) {
  constexpr int kLane = 1'000'000;  // behind the thread of any link
  std::vector<PlacedEvent> placed;
  for (const TraceEvent& e : events)
    placed.push_back({.begin_ns = nanoseconds(e.start_s), .end_ns = nanoseconds(e.start_s + e.duration_s)});
  std::vector<size_t> order(events.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return placed[i].begin_ns; });
  std::map<std::pair<int, int>, std::vector<int64_t>> ends;  // of each lane's last event so far
  for (const size_t i : order) {
    const TraceEvent& e = events[i];
    const Track track = track_of(e);
    std::vector<int64_t>& lanes = ends[{e.rank, track.thread}];
    const auto free = std::ranges::find_if(lanes, [&](int64_t end_ns) { return end_ns <= placed[i].begin_ns; });
    const auto lane = static_cast<int>(free - lanes.begin());
    if (free == lanes.end()) lanes.push_back(0);
    lanes[static_cast<size_t>(lane)] = placed[i].end_ns;
    placed[i].thread = track.thread + kLane * lane;
    names.try_emplace({e.rank, placed[i].thread}, lane == 0 ? track.name : fmt::format("{} {}", track.name, lane + 1));
  }
  return placed;
}

// Appends the events of one run; process ids are rank·stride + offset.
void append_run(std::string& out, std::span<const TraceEvent> events, std::string_view process, int stride,
                int offset) {
  int num_ranks = 0;
  for (const TraceEvent& e : events) num_ranks = std::max(num_ranks, e.rank + 1);
  std::map<std::pair<int, int>, std::string> threads;  // of each (rank, thread) its name
  for (int rank = 0; rank < num_ranks; ++rank)
    threads.emplace(std::pair{rank, static_cast<int>(Resource::compute)}, name_of(Resource::compute));
  const std::vector<PlacedEvent> placed = place_events(events, threads);
  auto to = std::back_inserter(out);
  const auto separator = [&] { return out.back() == '[' ? "\n" : ",\n"; };
  for (int rank = 0; rank < num_ranks; ++rank) {
    const int pid = rank * stride + offset;
    const std::string name =
        quote_json(num_ranks == 1 ? std::string(process) : fmt::format("{}, rank {}", process, rank));
    fmt::format_to(to, R"({}{{"name":"process_name","ph":"M","pid":{},"tid":0,"args":{{"name":{}}}}})", separator(),
                   pid, name);
    for (auto t = threads.lower_bound({rank, 0}); t != threads.end() && t->first.first == rank; ++t)
      fmt::format_to(to, R"({}{{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":{}}}}})", separator(),
                     pid, t->first.second, quote_json(t->second));
  }
  for (size_t i = 0; i < events.size(); ++i) {
    const TraceEvent& e = events[i];
    const auto [thread, begin_ns, end_ns] = placed[i];
    const double begin_us = 1e-3 * static_cast<double>(begin_ns),
                 duration_us = 1e-3 * static_cast<double>(end_ns - begin_ns);
    const int pid = e.rank * stride + offset;
    fmt::format_to(
        to,
        R"({}{{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"args":{{"unit":{},"micro":{},)"
        R"("flops":{},"bytes_moved":{},"message_bytes":{},"buffer_bytes":{},"peak_bytes":{}}}}})",
        separator(), quote_json(e.name), name_of(e.op), pid, thread, begin_us, duration_us, e.unit, e.micro, e.flops,
        e.bytes_moved, e.message_bytes, e.buffer_bytes, e.peak_bytes);
    fmt::format_to(to, R"({}{{"name":"memory","ph":"C","pid":{},"ts":{:.3f},"args":{{"buffers":{},"workspace":{}}}}})",
                   separator(), pid, begin_us, e.buffer_bytes, e.peak_bytes - e.buffer_bytes);
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
