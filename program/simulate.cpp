#include "program/simulate.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace tern {

Simulation simulate(const Program& program, const Rates& rates) {
  Simulation s;
  s.ranks.resize(program.num_ranks);
  std::vector<int64_t> alive(program.num_ranks, 0);
  std::vector<double> now(program.num_ranks, 0);
  std::map<std::tuple<int, BufferKind, int, int>, int64_t> bytes_of;

  for (size_t place = 0; place < program.instructions.size(); ++place) {
    const Instruction& i = program.instructions[place];
    InstructionBytes b{.before = alive[i.rank], .workspace = i.workspace_bytes};
    for (const auto& [buffer, bytes] : i.allocates) {
      alive[i.rank] += bytes;
      bytes_of[{i.rank, buffer.kind, buffer.unit, buffer.micro}] = bytes;
    }
    b.peak_buffers = alive[i.rank];
    for (const Buffer& buffer : i.frees) alive[i.rank] -= bytes_of[{i.rank, buffer.kind, buffer.unit, buffer.micro}];
    b.after = alive[i.rank];

    RankBytes& r = s.ranks[i.rank];
    r.peak_buffers = std::max(r.peak_buffers, b.peak_buffers);
    r.peak_workspace = std::max(r.peak_workspace, b.workspace);
    if (b.peak() > r.peak_bytes) {
      r.peak_bytes = b.peak();
      r.buffers_at_peak = b.peak_buffers;
      r.workspace_at_peak = b.workspace;
      r.peak_place = place;
    }

    const double seconds = std::max(static_cast<double>(i.flops) / rates.flops_per_s,
                                    static_cast<double>(i.bytes_moved) / rates.bytes_per_s);
    s.trace.push_back(trace_event(i, now[i.rank], seconds, b.peak_buffers, b.peak()));
    now[i.rank] += seconds;
    s.flops += i.flops;
    s.replay.push_back(b);
  }
  s.seconds = now.empty() ? 0 : *std::max_element(now.begin(), now.end());
  return s;
}

}  // namespace tern
