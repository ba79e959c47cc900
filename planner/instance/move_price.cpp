#include "planner/instance/move_price.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "planner/instance/order_peaks.h"
#include "planner/instance/price.h"
#include "program/pipeline_bound.h"
#include "program/pipeline_cut.h"

namespace tern {
namespace {

constexpr size_t kMostPaths = 24;

// A longest path, and its length at the times of the assignment that stands.
struct Path {
  PipelineCut passes;
  int64_t length = 0;
};

// What a move may change: at most two virtual stages, their devices and the links beside them.
struct Touched {
  std::vector<int> devices, stages;  // stages: all of those devices
  int first_link = 0, last_link = 0;
};

}  // namespace

struct MovePricer::State {
  State(const Instance& of, Assignment given) : in(of), a(std::move(given)), price(of) {
    const Priced begin = price(a);
    TERN_CHECK(begin.fits(), "improve: the assignment that was given does not fit");
    shape = begin.shape, times = moved = begin.times, makespan = begin.makespan;
    bytes = moved_bytes = stage_bytes(in, a);
    first.assign(static_cast<size_t>(shape.num_virtual_stages()) + 1, in.num_layers());
    for (size_t u = a.stage.size(); u-- > 0;) first[static_cast<size_t>(a.stage[u])] = static_cast<int>(u);
    of_device.resize(static_cast<size_t>(shape.num_devices));
    for (int s = 0; s < shape.num_virtual_stages(); ++s)
      of_device[static_cast<size_t>(device_of(shape, s))].push_back(s);
    timed = order_follows_times(in.schedule);
    if (timed) return;
    const PipelineOrder order = pipeline_order(shape, times);
    prepared = prepare_pipeline(shape, order);
    peaks.emplace(shape, order);
    follow_path();
  }

  bool take_if_faster(int u, int stage, int strategy);

  Touched touched_by(int from, int to) const;
  void make_times(const Touched&);
  void make_bytes(const Touched&);
  bool no_shorter_path(const Touched&) const;
  bool has_room(const Touched&) const;
  std::optional<int64_t> faster();  // the makespan of `moved`, where it is less
  void follow_path();
  void keep(const Touched&);
  void put_back(const Touched&);

  const Instance& in;
  Assignment a;
  Pricer price;
  PipelineShape shape;
  PipelineTimes times, moved;          // of the assignment that stands, and of a move; equal between moves
  AssignmentBytes bytes, moved_bytes;  // likewise
  int64_t makespan = 0, walks = 1;
  std::vector<int> first;                   // layer of each virtual stage, and the number of layers
  std::vector<std::vector<int>> of_device;  // its virtual stages, rising
  bool timed = false;                       // the order follows the times
  PreparedPipeline prepared;                // where it does not, as the next two
  std::optional<OrderPeaks> peaks;
  std::vector<Path> paths;
  size_t oldest = 0;  // of the paths
  PipelineScratch scratch;
  PipelineRun run;
};

namespace {

// f(values of the standing times, of the move, and a path's passes) for each number that a move may change.
template <class Visit>
void each_touched(const Touched& x, const PipelineTimes& a, const PipelineTimes& b, const PipelineCut& c,
                  const Visit& f) {
  for (const int s : x.stages) {
    const auto at = static_cast<size_t>(s);
    f(a.forward[at], b.forward[at], c.forward[at]);
    f(a.backward[at], b.backward[at], c.backward[at]);
    f(a.weight[at], b.weight[at], c.weight[at]);
  }
  for (int s = x.first_link; s <= x.last_link; ++s) {
    const auto at = static_cast<size_t>(s);
    f(a.send_forward[at], b.send_forward[at], c.send_forward[at]);
    f(a.send_backward[at], b.send_backward[at], c.send_backward[at]);
  }
  for (const int d : x.devices) {
    const auto at = static_cast<size_t>(d);
    f(a.begin[at], b.begin[at], c.begin[at]);
    f(a.tail[at], b.tail[at], c.tail[at]);
  }
}

void copy_touched(const Touched& x, const PipelineTimes& from, PipelineTimes& to) {
  const auto copy = [&](auto of, int i) { (to.*of)[static_cast<size_t>(i)] = (from.*of)[static_cast<size_t>(i)]; };
  for (const int s : x.stages)
    for (const auto of : {&PipelineTimes::forward, &PipelineTimes::backward, &PipelineTimes::weight}) copy(of, s);
  for (int s = x.first_link; s <= x.last_link; ++s)
    for (const auto of : {&PipelineTimes::send_forward, &PipelineTimes::send_backward}) copy(of, s);
  for (const int d : x.devices)
    for (const auto of : {&PipelineTimes::begin, &PipelineTimes::tail}) copy(of, d);
}

void copy_touched(const Touched& x, const AssignmentBytes& from, AssignmentBytes& to) {
  for (const int d : x.devices) to.persistent[static_cast<size_t>(d)] = from.persistent[static_cast<size_t>(d)];
  for (const int s : x.stages) to.stages[static_cast<size_t>(s)] = from.stages[static_cast<size_t>(s)];
}

}  // namespace

Touched MovePricer::State::touched_by(int from, int to) const {
  Touched x;
  const int d = device_of(shape, from), e = device_of(shape, to);
  x.devices.push_back(d);
  if (e != d) x.devices.push_back(e);
  for (const int device : x.devices) {
    const auto& stages = of_device[static_cast<size_t>(device)];
    x.stages.insert(x.stages.end(), stages.begin(), stages.end());
  }
  x.first_link = std::max(0, std::min(from, to) - 1),
  x.last_link = std::min(std::max(from, to), shape.num_virtual_stages() - 2);
  return x;
}

// By the stage model's own sums, of the touched devices alone.
void MovePricer::State::make_times(const Touched& x) {
  const auto strategy = [&](int u) { return static_cast<size_t>(a.strategy[static_cast<size_t>(u)]); };
  const auto edge = [&](const std::vector<std::vector<EdgeCost>>& edges, int u) -> const EdgeCost& {
    const auto at = static_cast<size_t>(u);
    return edges[at][strategy(u) * in.cost[at + 1].size() + strategy(u + 1)];
  };
  std::vector<int> stages = x.stages;
  std::sort(stages.begin(), stages.end(), std::greater<>());
  StageTimes sum(shape);
  for (const int s : stages) {
    const int begin = first[static_cast<size_t>(s)], end = first[static_cast<size_t>(s) + 1];
    for (int u = end - 1; u >= begin; --u)
      sum.add(s, in.cost[static_cast<size_t>(u)][strategy(u)], u + 1 < end ? edge(in.within, u) : EdgeCost{},
              u == begin, u + 1 == end);
  }
  PipelineTimes made = sum.finish();
  made.send_forward = times.send_forward, made.send_backward = times.send_backward;
  for (int s = x.first_link; s <= x.last_link; ++s) {
    const auto at = static_cast<size_t>(s);
    const EdgeCost& link = edge(links_behind(in, s), first[at + 1] - 1);
    made.send_forward[at] = link.forward, made.send_backward[at] = link.backward;
  }
  copy_touched(x, made, moved);
}

void MovePricer::State::make_bytes(const Touched& x) {
  for (const int d : x.devices) moved_bytes.persistent[static_cast<size_t>(d)] = {};
  for (const int s : x.stages) {
    TierBytes& persistent = moved_bytes.persistent[static_cast<size_t>(device_of(shape, s))];
    StageBytes& stage = moved_bytes.stages[static_cast<size_t>(s)] = {};
    for (int u = first[static_cast<size_t>(s)]; u < first[static_cast<size_t>(s) + 1]; ++u) {
      const auto at = static_cast<size_t>(u);
      const CostVector& c = in.cost[at][static_cast<size_t>(a.strategy[at])];
      for (size_t tier = 0; tier < kTiers; ++tier)
        persistent[tier] += c.persistent[tier], stage.held[tier] += c.held[tier];
      stage.held_weight += c.held_weight;
      stage.transient = std::max(stage.transient, c.transient);
    }
  }
}

// Some path is as long as the makespan under the times of the move: no order of operations ends sooner. Where the order
// follows the times, by bounds of every order.
bool MovePricer::State::no_shorter_path(const Touched& x) const {
  if (timed) return pipeline_lower_bound(shape, moved) >= makespan;
  return std::any_of(paths.begin(), paths.end(), [&](const Path& p) {
    int64_t length = p.length;
    each_touched(x, times, moved, p.passes,
                 [&](int64_t before, int64_t after, int64_t passes) { length += passes * (after - before); });
    return length >= makespan;
  });
}

// Where the order follows the times the peak is known only with it; a micro-batch of a stage is held at once.
bool MovePricer::State::has_room(const Touched& x) const {
  const auto fits = [&](int device, const TierBytes& need) {
    const TierBytes& capacity = in.capacity[static_cast<size_t>(device)];
    for (size_t tier = 0; tier < kTiers; ++tier)
      if (need[tier] > capacity[tier]) return false;
    return true;
  };
  for (const int d : x.devices) {
    if (!timed) {
      if (!fits(d, peaks->peak(d, moved_bytes))) return false;
      continue;
    }
    for (const int s : of_device[static_cast<size_t>(d)]) {
      TierBytes need = moved_bytes.persistent[static_cast<size_t>(d)];
      const StageBytes& stage = moved_bytes.stages[static_cast<size_t>(s)];
      for (size_t tier = 0; tier < kTiers; ++tier) need[tier] += stage.held[tier];
      need[0] += stage.transient;
      if (!fits(d, need)) return false;
    }
  }
  return true;
}

std::optional<int64_t> MovePricer::State::faster() {
  ++walks;
  if (timed) {
    const std::optional<Priced> p = price.below(a, makespan);
    return p ? std::optional(p->makespan) : std::nullopt;
  }
  run_pipeline(prepared, moved, scratch, run);
  if (run.makespan < makespan) return run.makespan;
  return std::nullopt;
}

// The longest path at the times of `moved`.
void MovePricer::State::follow_path() {
  if (timed || static_cast<int64_t>(prepared.steps.size()) > kMostOperationsFollowed) return;
  ++walks;
  Path path{pipeline_cut(prepared, moved), 0};
  path.length = value(path.passes, times);
  if (paths.size() < kMostPaths) return paths.push_back(std::move(path));
  paths[oldest] = std::move(path);
  oldest = (oldest + 1) % kMostPaths;
}

void MovePricer::State::keep(const Touched& x) {
  for (Path& p : paths)
    each_touched(x, times, moved, p.passes,
                 [&](int64_t before, int64_t after, int64_t passes) { p.length += passes * (after - before); });
  copy_touched(x, moved, times), copy_touched(x, moved_bytes, bytes);
}

void MovePricer::State::put_back(const Touched& x) {
  copy_touched(x, times, moved), copy_touched(x, bytes, moved_bytes);
}

bool MovePricer::State::take_if_faster(int u, int stage, int strategy) {
  const auto at = static_cast<size_t>(u);
  const int from = a.stage[at];
  if (!runs_on(in, type_of_stage(in, device_of(shape, stage)), u, strategy)) return false;
  const int before = std::exchange(a.strategy[at], strategy);
  const std::vector<int> first_before{first[static_cast<size_t>(from)], first[static_cast<size_t>(from) + 1]};
  a.stage[at] = stage;
  if (stage > from) first[static_cast<size_t>(stage)] = u;
  if (stage < from) first[static_cast<size_t>(from)] = u + 1;
  const Touched x = touched_by(from, stage);
  make_times(x);
  std::optional<int64_t> less;
  if (!no_shorter_path(x)) {
    make_bytes(x);
    if (has_room(x) && !(less = faster())) follow_path();
  }
  if (less) {
    makespan = *less;
    keep(x);
    follow_path();
    return true;
  }
  a.stage[at] = from, a.strategy[at] = before;
  first[static_cast<size_t>(from)] = first_before[0], first[static_cast<size_t>(from) + 1] = first_before[1];
  put_back(x);
  return false;
}

MovePricer::MovePricer(const Instance& in, Assignment a) : state_(std::make_unique<State>(in, std::move(a))) {}
MovePricer::~MovePricer() = default;
const Assignment& MovePricer::assignment() const { return state_->a; }
int64_t MovePricer::makespan() const { return state_->makespan; }
int64_t MovePricer::walks() const { return state_->walks; }
bool MovePricer::take_if_faster(int u, int stage, int strategy) { return state_->take_if_faster(u, stage, strategy); }

}  // namespace tern
