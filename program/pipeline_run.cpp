#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "program/pipeline.h"

namespace tern {
namespace {

std::string to_string(const PipelineOp& op) {
  constexpr const char* names[] = {"forward", "backward", "weight gradient"};
  return fmt::format("{} of stage {}, micro-batch {}", names[static_cast<int>(op.phase)], op.stage, op.micro);
}

// Index of an operation among all: phase, stage, micro-batch.
struct Index {
  int stages, micros;
  size_t operator()(Phase phase, int stage, int micro) const {
    return (static_cast<size_t>(phase) * stages + stage) * micros + micro;
  }
  size_t operator()(const PipelineOp& op) const { return (*this)(op.phase, op.stage, op.micro); }
};

void check_whole(const PipelineShape& shape, const PipelineOrder& order) {
  const int stages = shape.num_stages(), micros = shape.num_micro;
  const bool split = splits_backward(shape.schedule);
  const Index index{stages, micros};
  TERN_CHECK(static_cast<int>(order.size()) == shape.num_devices, "pipeline: an order of {} devices, expected {}",
             order.size(), shape.num_devices);
  std::vector<char> seen(3 * static_cast<size_t>(stages) * micros, 0);
  size_t count = 0;
  for (int d = 0; d < shape.num_devices; ++d)
    for (const PipelineOp& op : order[d]) {
      TERN_CHECK(op.stage >= 0 && op.stage < stages && op.micro >= 0 && op.micro < micros,
                 "pipeline: {}: out of {} stages, {} micro-batches", to_string(op), stages, micros);
      TERN_CHECK(device_of(shape, op.stage) == d, "pipeline: {}: on device {}, its stage lies on {}", to_string(op), d,
                 device_of(shape, op.stage));
      TERN_CHECK(split || op.phase != Phase::weight, "pipeline: {}: {} does not split the backward", to_string(op),
                 name_of(shape.schedule));
      TERN_CHECK(!seen[index(op)], "pipeline: {}: twice", to_string(op));
      seen[index(op)] = 1;
      ++count;
    }
  const size_t want = static_cast<size_t>(stages) * micros * (split ? 3 : 2);
  if (count == want) return;
  for (const Phase phase : {Phase::forward, Phase::backward, Phase::weight})
    for (int s = 0; s < stages; ++s)
      for (int m = 0; m < micros; ++m)
        TERN_CHECK(seen[index(phase, s, m)] || (phase == Phase::weight && !split), "pipeline: no {}",
                   to_string(PipelineOp{phase, s, m}));
}

// Walks the devices in turn, each as far as its operations' inputs allow; an arrival's slot is taken again once read.
struct Preparer {
  const PipelineShape& shape;
  const PipelineOrder& order;
  Index index{shape.num_stages(), shape.num_micro};
  PreparedPipeline prepared{.shape = shape, .steps = {}};
  std::vector<char> done = std::vector<char>(3 * static_cast<size_t>(index.stages) * index.micros, 0);
  std::vector<int32_t> slot = std::vector<int32_t>(2 * static_cast<size_t>(index.stages) * index.micros, -1);
  std::vector<int32_t> free_slots;

  int device(int stage) const { return device_of(shape, stage); }

  bool ready(const PipelineOp& op) const {
    const auto is_done = [&](Phase p, int s) { return done[index(p, s, op.micro)] != 0; };
    switch (op.phase) {
      case Phase::forward:
        return op.stage == 0 || is_done(Phase::forward, op.stage - 1);
      case Phase::backward:
        return is_done(Phase::forward, op.stage) &&
               (op.stage + 1 == index.stages || is_done(Phase::backward, op.stage + 1));
      case Phase::weight:
        return is_done(Phase::backward, op.stage);
    }
    return false;
  }

  int32_t take_slot() {
    if (free_slots.empty()) return prepared.num_arrivals++;
    const int32_t s = free_slots.back();
    free_slots.pop_back();
    return s;
  }

  void issue(const PipelineOp& op) {
    const int d = device(op.stage), direction = op.phase == Phase::forward ? 1 : -1;
    PreparedPipeline::Step step{.device = d,
                                .cost = static_cast<int>(op.phase) * index.stages + op.stage,
                                .wait = -1,
                                .link = -1,
                                .send = 0,
                                .out = -1};
    if (op.phase != Phase::weight) {
      const int from = op.stage - direction, to = op.stage + direction;
      if (from >= 0 && from < index.stages && device(from) != d) {
        step.wait = slot[index(op.phase, from, op.micro)];
        free_slots.push_back(step.wait);
      }
      if (to >= 0 && to < index.stages && device(to) != d) {
        step.out = slot[index(op)] = take_slot();
        step.link = d * shape.num_devices + device(to);
        step.send = direction > 0 ? op.stage : index.stages - 1 + to;
      }
    }
    done[index(op)] = 1;
    prepared.steps.push_back(step);
  }

  void number_links() {
    std::vector<int32_t> number(static_cast<size_t>(shape.num_devices) * shape.num_devices, -1);
    for (PreparedPipeline::Step& s : prepared.steps) {
      if (s.link < 0) continue;
      if (number[s.link] < 0) number[s.link] = prepared.num_links++;
      s.link = number[s.link];
    }
  }

  PreparedPipeline run() {
    std::vector<size_t> next(order.size(), 0);
    size_t left = 0;
    for (const auto& ops : order) left += ops.size();
    prepared.steps.reserve(left);
    while (left > 0) {
      const size_t before = left;
      for (size_t d = 0; d < order.size(); ++d)
        for (; next[d] < order[d].size() && ready(order[d][next[d]]); ++next[d], --left) issue(order[d][next[d]]);
      if (left == before) deadlock(next);
    }
    number_links();
    return std::move(prepared);
  }

  void deadlock(const std::vector<size_t>& next) const {
    std::string blocked;
    for (size_t d = 0; d < order.size(); ++d)
      if (next[d] < order[d].size())
        blocked += fmt::format("{}device {} at its operation {}, {}", blocked.empty() ? "" : "; ", d, next[d],
                               to_string(order[d][next[d]]));
    TERN_CHECK(false, "pipeline: deadlock: each waits for another: {}", blocked);
  }
};

}  // namespace

PreparedPipeline prepare_pipeline(const PipelineShape& shape, const PipelineOrder& order) {
  check_whole(shape, order);
  return Preparer{shape, order}.run();
}

void run_pipeline(const PreparedPipeline& p, const PipelineTimes& t, PipelineScratch& scratch, PipelineRun& run) {
  const size_t stages = p.shape.num_stages(), devices = p.shape.num_devices;
  TERN_CHECK(t.forward.size() == stages && t.backward.size() == stages && t.weight.size() == stages &&
                 t.send_forward.size() + 1 == stages && t.send_backward.size() + 1 == stages &&
                 t.begin.size() == devices && t.tail.size() == devices,
             "pipeline: times that are not of {} stages on {} devices", stages, devices);
  scratch.cost.resize(3 * stages);
  const bool split = splits_backward(p.shape.schedule);
  for (size_t s = 0; s < stages; ++s) {
    scratch.cost[s] = t.forward[s];
    scratch.cost[stages + s] = split ? t.backward[s] : t.backward[s] + t.weight[s];
    scratch.cost[2 * stages + s] = t.weight[s];
  }
  scratch.send.assign(t.send_forward.begin(), t.send_forward.end());
  scratch.send.insert(scratch.send.end(), t.send_backward.begin(), t.send_backward.end());
  scratch.clock.assign(t.begin.begin(), t.begin.end());
  scratch.link.assign(p.num_links, 0);
  scratch.arrival.resize(p.num_arrivals);
  run.begin.assign(devices, -1);
  run.busy.assign(devices, 0);

  const int64_t *cost = scratch.cost.data(), *send = scratch.send.data();
  int64_t *clock = scratch.clock.data(), *link = scratch.link.data(), *arrival = scratch.arrival.data();
  int64_t *begin = run.begin.data(), *busy = run.busy.data();
  for (const PreparedPipeline::Step& s : p.steps) {
    int64_t start = clock[s.device];
    if (s.wait >= 0) start = std::max(start, arrival[s.wait]);
    if (begin[s.device] < 0) begin[s.device] = start;
    const int64_t end = start + cost[s.cost];
    clock[s.device] = end;
    busy[s.device] += cost[s.cost];
    if (s.link >= 0) arrival[s.out] = link[s.link] = std::max(end, link[s.link]) + send[s.send];
  }
  run.end.assign(scratch.clock.begin(), scratch.clock.end());
  run.makespan = 0;
  for (size_t d = 0; d < devices; ++d) run.makespan = std::max(run.makespan, run.end[d] + t.tail[d]);
}

PipelineRun run_pipeline(const PipelineShape& shape, const PipelineOrder& order, const PipelineTimes& times) {
  PipelineScratch scratch;
  PipelineRun run;
  run_pipeline(prepare_pipeline(shape, order), times, scratch, run);
  return run;
}

std::vector<int64_t> pipeline_peaks(const PipelineShape& shape, const PipelineOrder& order,
                                    std::span<const int64_t> held, std::span<const int64_t> held_weight,
                                    std::span<const int64_t> transient) {
  const bool split = splits_backward(shape.schedule);
  std::vector<int64_t> peaks;
  for (const auto& ops : order) {
    int64_t now = 0, peak = 0;
    for (const PipelineOp& op : ops) {
      const int64_t before = now;
      if (op.phase == Phase::forward) now += held[op.stage];
      if (op.phase == Phase::backward) now += (split ? held_weight[op.stage] : 0) - held[op.stage];
      if (op.phase == Phase::weight) now -= held_weight[op.stage];
      peak = std::max(peak, std::max(before, now) + transient[op.stage]);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace tern
