#include "program/simulate.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "program/dependencies.h"

namespace tern {
namespace {

void add(TierBytes& now, Tier tier, int64_t bytes) { now[static_cast<size_t>(tier)] += bytes; }

void raise(TierBytes& peak, const TierBytes& now, int64_t workspace) {
  for (int tier = 0; tier < kTiers; ++tier) peak[tier] = std::max(peak[tier], now[tier] + (tier == 0 ? workspace : 0));
}

void count(RankBytes& r, const InstructionBytes& b, size_t place) {
  r.peak_buffers = std::max(r.peak_buffers, b.peak_buffers);
  r.peak_workspace = std::max(r.peak_workspace, b.workspace);
  if (b.peak() <= r.peak_bytes) return;
  r.peak_bytes = b.peak();
  r.buffers_at_peak = b.peak_buffers;
  r.workspace_at_peak = b.workspace;
  r.peak_place = place;
}

void replay(const Program& program, Simulation& s) {
  const auto ranks = static_cast<size_t>(program.num_ranks);
  s.ranks.resize(ranks);
  std::vector<TierBytes> now(ranks, TierBytes{});
  for (size_t rank = 0; rank < program.resident.size(); ++rank)
    for (const BufferBytes& b : program.resident[rank]) add(now[rank], b.buffer.tier, b.bytes);
  std::vector<int64_t> resident;
  for (const TierBytes& bytes : now) resident.push_back(bytes[0]);
  s.peak = now;
  std::map<BufferKey, int64_t> bytes_of;
  for (size_t place = 0; place < program.instructions.size(); ++place) {
    const Instruction& i = program.instructions[place];
    TierBytes& alive = now[i.rank];
    InstructionBytes b{.before = alive[0] - resident[i.rank], .workspace = i.workspace_bytes};
    for (const auto& [buffer, bytes] : i.allocates)
      add(alive, buffer.tier, bytes_of[buffer_key(i.rank, buffer)] = bytes);
    b.peak_buffers = alive[0] - resident[i.rank];
    raise(s.peak[i.rank], alive, i.workspace_bytes);
    for (const Buffer& buffer : i.frees) add(alive, buffer.tier, -bytes_of[buffer_key(i.rank, buffer)]);
    b.after = alive[0] - resident[i.rank];
    count(s.ranks[i.rank], b, place);
    s.flops += i.flops;
    s.replay.push_back(b);
  }
  s.at_end = now;
}

void run(const Program& program, std::span<const int64_t> ps, Simulation& s) {
  const Dependencies d = dependencies_of(program);
  TERN_CHECK(d.faults.empty(), "simulate: {}", d.faults[0]);
  TERN_CHECK(d.order.size() == program.instructions.size(), "simulate: deadlock: {}", describe_deadlock(program, d));
  s.start.resize(program.instructions.size());
  s.end.resize(program.instructions.size());
  for (const int k : d.order) {
    int64_t start = 0, duration = ps[k];
    for (int at = d.first[k]; at < d.first[k + 1]; ++at) start = std::max(start, s.end[d.list[at]]);
    if (const int send = d.send_of[k]; send >= 0) {
      start = s.start[send];
      duration = s.end[send] - start;
    }
    s.start[k] = start;
    s.end[k] = start + duration;
    s.makespan = std::max(s.makespan, s.end[k]);
  }
}

}  // namespace

Simulation simulate(const Program& program, std::span<const int64_t> picoseconds) {
  Simulation s;
  replay(program, s);
  if (picoseconds.empty()) return s;
  TERN_CHECK(picoseconds.size() == program.instructions.size(), "simulate: {} times for {} instructions",
             picoseconds.size(), program.instructions.size());
  run(program, picoseconds, s);
  return s;
}

std::vector<TraceEvent> trace_of(const Program& program, const Simulation& s) {
  constexpr double kPicosecond = 1e-12;
  TERN_CHECK(s.start.size() == program.instructions.size(), "trace_of: a simulation without times");
  std::vector<TraceEvent> events;
  for (size_t k = 0; k < s.start.size(); ++k)
    events.push_back(trace_event(program.instructions[k], static_cast<double>(s.start[k]) * kPicosecond,
                                 static_cast<double>(s.end[k] - s.start[k]) * kPicosecond, s.replay[k].peak_buffers,
                                 s.replay[k].peak()));
  return events;
}

}  // namespace tern
