#include "train/step_trace.h"

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/io.h"
#include "program/instruction_times.h"
#include "program/simulate.h"

namespace tern {
namespace {

// An empty file is nobody's.
bool is_trace(const std::string& text) { return text.empty() || text.starts_with(R"({"displayTimeUnit")"); }

// The same list on every rank, each with its times, from the first that began.
std::vector<TraceEvent> on_all_ranks(const std::vector<TraceEvent>& list, std::span<const double> starts,
                                     std::span<const double> durations) {
  std::vector<TraceEvent> all;
  const double begin = starts.empty() ? 0 : *std::ranges::min_element(starts);
  for (size_t at = 0; at < starts.size(); ++at) {
    TraceEvent& e = all.emplace_back(list[at % list.size()]);
    e.rank = static_cast<int>(at / list.size());
    e.start_s = starts[at] - begin, e.duration_s = durations[at];
  }
  return all;
}

}  // namespace

void require_trace_place(const std::string& path, Io& io) {
  if (path.empty()) return;
  const auto folder = io.stat(parent_path(path)), file = io.stat(path);
  if (!folder || !folder->is_directory)
    throw Error(ErrorKind::usage, "--trace {}: there is no folder {}; make it, or choose another", path,
                parent_path(path));
  if (file && file->is_directory) throw Error(ErrorKind::usage, "--trace {}: is a folder, expected a file", path);
  std::error_code ignored;
  if (file && !std::filesystem::is_other(path, ignored) && !is_trace(io.read(path)))
    throw Error(ErrorKind::usage, "--trace {}: holds something else than a trace; choose another file", path);
}

std::vector<TraceEvent> gather_trace(const std::vector<TraceEvent>& mine, int64_t begin_ns, Comm& world) {
  std::vector<double> starts, durations;
  for (const TraceEvent& e : mine) {
    starts.push_back(seconds_between(0, begin_ns) + e.start_s);
    durations.push_back(e.duration_s);
  }
  const std::vector<double> all = world.gather(starts);
  return on_all_ranks(mine, all, world.gather(durations));
}

std::vector<TraceEvent> predicted_trace(const Program& program, double flops_per_s, int ranks) {
  Rates rates;
  if (flops_per_s > 0) rates.flops_per_s = flops_per_s;
  const std::vector<TraceEvent> one = trace_of(program, simulate(program, instruction_times(program, rates)));
  std::vector<double> starts, durations;
  for (int rank = 0; rank < ranks; ++rank)
    for (const TraceEvent& e : one) starts.push_back(e.start_s), durations.push_back(e.duration_s);
  return on_all_ranks(one, starts, durations);
}

}  // namespace tern
