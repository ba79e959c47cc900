#include "program/shared_cores.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/error.h"
#include "program/dependencies.h"

namespace tern {
namespace {

// All instructions that run advance at one speed, so they end in the order of what each has left: one number, `done`, tells how
// far all have come.
struct SharedClock {
  const Program& program;
  std::span<const int64_t> ps;
  const SharedCores& cores;
  Dependencies d = dependencies_of(program);
  std::vector<int> left = std::vector<int>(ps.size(), 0);  // what an instruction still waits for
  std::vector<std::vector<int>> waiting = std::vector<std::vector<int>>(ps.size());
  std::vector<int> ready{};
  using Running = std::pair<int64_t, int>;  // `done` at its end; its place
  std::priority_queue<Running, std::vector<Running>, std::greater<>> running{};
  int64_t done = 0;  // ps of work that an instruction has done which runs since the beginning
  // Whole numbers, so that every machine gives the same ones: a moment in ps / (devices · kParts), at_once in 1 / kParts.
  static constexpr int64_t kParts = 1024;
  __int128 now = 0;
  const int64_t at_once = std::llround(cores.at_once * kParts);

  void prepare() {
    for (size_t k = 0; k < ps.size(); ++k) {
      left[k] = d.first[k + 1] - d.first[k];
      for (int at = d.first[k]; at < d.first[k + 1]; ++at)
        waiting[static_cast<size_t>(d.list[at])].push_back(static_cast<int>(k));
      if (left[k] == 0) ready.push_back(static_cast<int>(k));
    }
  }
  int64_t moment() const { return static_cast<int64_t>(now / (cores.devices * kParts)); }

  void end(int k, Simulation& s) {
    const int send = d.send_of[k];  // a RECV starts and ends with its SEND
    if (send >= 0) s.start[k] = s.start[send];
    s.end[k] = send >= 0 ? s.end[send] : moment();
    for (const int next : waiting[static_cast<size_t>(k)])
      if (--left[static_cast<size_t>(next)] == 0) ready.push_back(next);
  }
  void start_ready(Simulation& s) {
    while (!ready.empty()) {
      const int k = ready.back();
      ready.pop_back();
      s.start[k] = moment();
      if (ps[k] == 0 || d.send_of[k] >= 0)
        end(k, s);
      else
        running.emplace(done + ps[k], k);
    }
  }
  void run(Simulation& s) {
    prepare();
    for (start_ready(s); !running.empty(); start_ready(s)) {
      const auto [end_at, k] = running.top();
      const int64_t at_work = std::ssize(running) * program.devices_per_rank;
      now += static_cast<__int128>(end_at - done) * std::max(at_work * kParts, at_once);
      done = end_at;
      running.pop();
      end(k, s);
    }
    s.makespan = moment();
  }
};

}  // namespace

Simulation simulate(const Program& program, std::span<const int64_t> picoseconds, const SharedCores& cores) {
  TERN_CHECK(cores.at_once >= 1 && cores.at_once <= static_cast<double>(cores.devices),
             "simulate: {} of {} devices at once", cores.at_once, cores.devices);
  TERN_CHECK(picoseconds.size() == program.instructions.size(), "simulate: {} times for {} instructions",
             picoseconds.size(), program.instructions.size());
  Simulation s = simulate(program);
  SharedClock clock{program, picoseconds, cores};
  TERN_CHECK(clock.d.faults.empty(), "simulate: {}", clock.d.faults[0]);
  TERN_CHECK(clock.d.order.size() == program.instructions.size(), "simulate: deadlock: {}",
             describe_deadlock(program, clock.d));
  s.start.resize(picoseconds.size()), s.end.resize(picoseconds.size());
  clock.run(s);
  return s;
}

}  // namespace tern
