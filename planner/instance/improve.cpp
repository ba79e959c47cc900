#include "planner/instance/improve.h"

#include <chrono>
#include <utility>
#include <vector>

#include "planner/instance/move_price.h"

namespace tern {
namespace {

class Climb {
 public:
  Climb(const Instance& in, Assignment a, const ImproveOptions& options)
      : in_(in), options_(options), price_(in, std::move(a)) {}

  // Ends once as many layers in a row as there are have no faster move.
  Improved run() {
    const int layers = in_.num_layers();
    for (int u = 0, idle = 0; idle < layers && out_.complete; u = (u + 1) % layers) idle = move_layer(u) ? 0 : idle + 1;
    out_.assignment = price_.assignment(), out_.makespan = price_.makespan();
    return std::move(out_);
  }

 private:
  bool move_layer(int u) {
    bool moved = false;
    for (const int stage : stages_of(u))
      for (int k = 0; k < static_cast<int>(in_.cost[static_cast<size_t>(u)].size()); ++k) {
        if (!out_.complete) return moved;
        moved |= try_move(u, stage, k);
      }
    return moved;
  }

  // Its own, and those beside it that it may join.
  std::vector<int> stages_of(int u) const {
    const std::vector<int>& stage = price_.assignment().stage;
    const size_t at = static_cast<size_t>(u);
    const bool first = u == 0 || stage[at - 1] != stage[at],
               last = at + 1 == stage.size() || stage[at + 1] != stage[at];
    std::vector<int> list{stage[at]};
    if (first && !last && u > 0) list.push_back(stage[at] - 1);
    if (last && !first && at + 1 < stage.size()) list.push_back(stage[at] + 1);
    return list;
  }

  bool try_move(int u, int stage, int strategy) {
    const Assignment& a = price_.assignment();
    const size_t at = static_cast<size_t>(u);
    if (a.stage[at] == stage && a.strategy[at] == strategy) return false;
    if (price_.walks() * operations_ >= options_.operations || late()) return out_.complete = false;
    ++out_.tried;
    const bool taken = price_.take_if_faster(u, stage, strategy);
    out_.taken += taken;
    return taken;
  }

  bool late() const {
    return (options_.stop && *options_.stop) ||
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() >= options_.seconds;
  }

  const Instance& in_;
  const ImproveOptions& options_;
  MovePricer price_;
  const int64_t operations_ = int64_t{3} * in_.num_stages * in_.chunks_per_stage * in_.num_micro;  // of a walk
  Improved out_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

Improved improve(const Instance& in, Assignment a, const ImproveOptions& options) {
  return Climb(in, std::move(a), options).run();
}

}  // namespace tern
