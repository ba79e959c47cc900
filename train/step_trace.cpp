#include "train/step_trace.h"

#include <algorithm>
#include <limits>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "base/output_place.h"
#include "program/instruction_times.h"
#include "program/simulate.h"

namespace tern {
namespace {

// An empty file is nobody's.
bool is_trace(const std::string& text) { return text.empty() || text.starts_with(R"({"displayTimeUnit")"); }

// A device's event as its replica's.
TraceEvent at_rank(TraceEvent e, int rank, int replicas) {
  e.rank = rank;
  if (e.peer >= 0) e.peer = e.peer * replicas + rank % replicas;
  return e;
}

}  // namespace

void require_trace_place(const std::string& path, Io& io) {
  require_output_place("--trace", path, "a trace", is_trace, io);
}

std::vector<TraceEvent> gather_trace(const Program& all, const std::vector<TraceEvent>& mine, int64_t begin_ns,
                                     Comm& world) {
  // What an event is, the list says; what it took, its rank.
  std::vector<std::vector<const Instruction*>> lists(static_cast<size_t>(all.num_ranks));
  for (const Instruction& i : all.instructions) lists[static_cast<size_t>(i.rank)].push_back(&i);
  size_t longest = 0;
  for (const auto& list : lists) longest = std::max(longest, list.size());
  constexpr size_t kValues = 4;
  std::vector<double> own(longest * kValues);
  for (size_t at = 0; at < mine.size(); ++at) {
    double* values = &own[at * kValues];
    values[0] = seconds_between(0, begin_ns) + mine[at].start_s, values[1] = mine[at].duration_s;
    values[2] = static_cast<double>(mine[at].buffer_bytes), values[3] = static_cast<double>(mine[at].peak_bytes);
  }
  const std::vector<double> everyones = world.gather(own);
  std::vector<TraceEvent> events;
  const int replicas = world.size() / all.num_ranks;
  double begin = std::numeric_limits<double>::max();
  for (int rank = 0; rank < world.size(); ++rank) {
    const auto& list = lists[static_cast<size_t>(rank / replicas)];
    const double* values = &everyones[static_cast<size_t>(rank) * own.size()];
    for (const Instruction* i : list) {
      begin = std::min(begin, values[0]);
      events.push_back(at_rank(
          trace_event(*i, values[0], values[1], static_cast<int64_t>(values[2]), static_cast<int64_t>(values[3])), rank,
          replicas));
      values += kValues;
    }
  }
  for (TraceEvent& e : events) e.start_s -= begin;
  return events;
}

std::vector<TraceEvent> predicted_trace(const Program& all, double flops_per_s, int ranks, double states_bytes_per_s) {
  Rates rates;
  if (flops_per_s > 0) rates.flops_per_s = flops_per_s;
  if (states_bytes_per_s > 0) rates.disk_bytes_per_s = states_bytes_per_s;
  const std::vector<TraceEvent> devices = trace_of(all, simulate(all, instruction_times(all, rates)));
  const int replicas = ranks / all.num_ranks;
  std::vector<TraceEvent> events;
  for (int rank = 0; rank < ranks; ++rank)
    for (const TraceEvent& e : devices)
      if (e.rank == rank / replicas) events.push_back(at_rank(e, rank, replicas));
  return events;
}

}  // namespace tern
