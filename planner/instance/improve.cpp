#include "planner/instance/improve.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planner/instance/price.h"

namespace tern {
namespace {

class Climb {
 public:
  Climb(const Instance& in, Assignment a, const ImproveOptions& options) : in_(in), options_(options), price_(in) {
    const std::optional<Priced> begin = price_.below(a, kNever);
    TERN_CHECK(begin, "improve: the assignment that was given does not fit");
    out_.assignment = std::move(a), out_.makespan = begin->makespan;
  }

  // Ends once as many layers in a row as there are have no faster move.
  Improved run() {
    const int layers = in_.num_layers();
    for (int u = 0, idle = 0; idle < layers && out_.complete; u = (u + 1) % layers) idle = move_layer(u) ? 0 : idle + 1;
    return std::move(out_);
  }

 private:
  bool move_layer(int u) {
    bool moved = false;
    for (const int stage : stages_of(u))
      for (int k = 0; k < static_cast<int>(in_.cost[static_cast<size_t>(u)].size()); ++k) {
        if (!out_.complete) return moved;
        moved |= try_move(static_cast<size_t>(u), stage, k);
      }
    return moved;
  }

  // Its own, and those beside it that it may join.
  std::vector<int> stages_of(int u) const {
    const std::vector<int>& stage = out_.assignment.stage;
    const size_t at = static_cast<size_t>(u);
    const bool first = u == 0 || stage[at - 1] != stage[at],
               last = at + 1 == stage.size() || stage[at + 1] != stage[at];
    std::vector<int> list{stage[at]};
    if (first && !last && u > 0) list.push_back(stage[at] - 1);
    if (last && !first && at + 1 < stage.size()) list.push_back(stage[at] + 1);
    return list;
  }

  bool try_move(size_t u, int stage, int strategy) {
    Assignment& a = out_.assignment;
    const std::pair before{a.stage[u], a.strategy[u]};
    if (before == std::pair{stage, strategy}) return false;
    if (price_.simulated() * operations_ >= options_.operations || late()) return out_.complete = false;
    ++out_.tried;
    a.stage[u] = stage, a.strategy[u] = strategy;
    if (const std::optional<Priced> p = price_.below(a, out_.makespan)) {
      out_.makespan = p->makespan, ++out_.taken;
      return true;
    }
    a.stage[u] = before.first, a.strategy[u] = before.second;
    return false;
  }

  bool late() const {
    return (options_.stop && *options_.stop) ||
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() >= options_.seconds;
  }

  const Instance& in_;
  const ImproveOptions& options_;
  Pricer price_;
  const int64_t operations_ = int64_t{3} * in_.num_stages * in_.chunks_per_stage * in_.num_micro;  // of a simulation
  Improved out_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Improved improve(const Instance& in, Assignment a, const ImproveOptions& options) {
  return Climb(in, std::move(a), options).run();
}

}  // namespace tern
