#include "program/simulate_ranks.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "program/dependencies.h"

namespace tern {
namespace {

struct Change {
  int64_t time;
  int place;
  bool ends;
  Tier tier;
  int64_t bytes;
};

// Every rise and fall of a rank's bytes, in the order in which they happen.
std::vector<std::vector<Change>> changes_of(const Program& program, const RanksSimulation& s) {
  std::vector<std::vector<Change>> changes(program.num_ranks);
  std::map<std::tuple<int, BufferKind, int, int, Tier>, int64_t> bytes_of;
  for (size_t k = 0; k < program.instructions.size(); ++k) {
    const Instruction& i = program.instructions[k];
    auto& list = changes[i.rank];
    const int place = static_cast<int>(k);
    for (const auto& [b, bytes] : i.allocates) {
      bytes_of[{i.rank, b.kind, b.unit, b.micro, b.tier}] = bytes;
      list.push_back({s.start[k], place, false, b.tier, bytes});
    }
    for (const Buffer& b : i.frees)
      list.push_back({s.end[k], place, true, b.tier, -bytes_of[{i.rank, b.kind, b.unit, b.micro, b.tier}]});
    if (i.workspace_bytes > 0) {
      list.push_back({s.start[k], place, false, Tier::device, i.workspace_bytes});
      list.push_back({s.end[k], place, true, Tier::device, -i.workspace_bytes});
    }
  }
  for (auto& list : changes)
    std::stable_sort(list.begin(), list.end(), [](const Change& a, const Change& b) {
      return std::tuple{a.time, a.place, a.ends} < std::tuple{b.time, b.place, b.ends};
    });
  return changes;
}

TierBytes resident_bytes(const Program& program, int rank) {
  TierBytes bytes{};
  if (!program.resident.empty())
    for (const BufferBytes& b : program.resident[rank]) bytes[static_cast<size_t>(b.buffer.tier)] += b.bytes;
  return bytes;
}

void replay(const Program& program, RanksSimulation& s) {
  const auto changes = changes_of(program, s);
  for (int rank = 0; rank < program.num_ranks; ++rank) {
    TierBytes now = resident_bytes(program, rank), peak = now;
    for (const Change& c : changes[rank]) {
      const auto tier = static_cast<size_t>(c.tier);
      now[tier] += c.bytes;
      peak[tier] = std::max(peak[tier], now[tier]);
    }
    s.peak.push_back(peak);
    s.at_end.push_back(now);
  }
}

}  // namespace

RanksSimulation simulate_ranks(const Program& program) {
  const Dependencies d = dependencies_of(program);
  TERN_CHECK(d.faults.empty(), "simulate: {}", d.faults[0]);
  TERN_CHECK(d.order.size() == program.instructions.size(), "simulate: deadlock: {}", describe_deadlock(program, d));
  RanksSimulation s;
  s.start.resize(program.instructions.size());
  s.end.resize(program.instructions.size());
  for (const int k : d.order) {
    int64_t start = 0, duration = program.instructions[k].picoseconds;
    for (int at = d.first[k]; at < d.first[k + 1]; ++at) start = std::max(start, s.end[d.list[at]]);
    if (const int send = d.send_of[k]; send >= 0) {
      start = s.start[send];
      duration = s.end[send] - start;
    }
    s.start[k] = start;
    s.end[k] = start + duration;
    s.makespan = std::max(s.makespan, s.end[k]);
  }
  replay(program, s);
  return s;
}

std::vector<TraceEvent> trace_of(const Program& program, const RanksSimulation& s) {
  constexpr double kPicosecond = 1e-12;
  std::vector<TraceEvent> events(program.instructions.size());
  std::vector<std::vector<int>> by_start(program.num_ranks);
  for (size_t k = 0; k < events.size(); ++k) by_start[program.instructions[k].rank].push_back(static_cast<int>(k));
  const auto changes = changes_of(program, s);
  for (int rank = 0; rank < program.num_ranks; ++rank) {
    std::stable_sort(by_start[rank].begin(), by_start[rank].end(),
                     [&](int a, int b) { return s.start[a] < s.start[b]; });
    int64_t now = resident_bytes(program, rank)[0];
    auto next = changes[rank].begin();
    for (const int k : by_start[rank]) {
      for (; next != changes[rank].end() &&
             std::tuple{next->time, next->place, next->ends} <= std::tuple{s.start[k], k, false};
           ++next)
        if (next->tier == Tier::device) now += next->bytes;
      const Instruction& i = program.instructions[k];
      events[k] = trace_event(i, static_cast<double>(s.start[k]) * kPicosecond,
                              static_cast<double>(s.end[k] - s.start[k]) * kPicosecond, now - i.workspace_bytes, now);
    }
  }
  return events;
}

}  // namespace tern
