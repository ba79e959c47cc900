#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "program/pipeline_impl.h"
#include "program/pipeline_run.h"

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
  const int stages = shape.num_virtual_stages(), micros = shape.num_micro;
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
  Index index{shape.num_virtual_stages(), shape.num_micro};
  PreparedPipeline prepared{.shape = shape, .steps = {}, .num_links = 0, .num_arrivals = 2};
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
                                .wait = kAtOnce,
                                .out = kNobody,
                                .link = -1,
                                .send = 0};
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

  // Links in use from 0 on; then one per device for operations that send nothing, so that a run needs no branch.
  void number_links() {
    std::vector<int32_t> number(static_cast<size_t>(shape.num_devices) * shape.num_devices, -1);
    for (PreparedPipeline::Step& s : prepared.steps) {
      if (s.link < 0) continue;
      if (number[s.link] < 0) number[s.link] = prepared.num_links++;
      s.link = number[s.link];
    }
    for (PreparedPipeline::Step& s : prepared.steps) {
      if (s.link >= 0) continue;
      s.link = prepared.num_links + s.device;
      s.send = 2 * (index.stages - 1);
    }
    prepared.num_links += shape.num_devices;
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

bool same(const PreparedPipeline::Step& a, const PreparedPipeline::Step& b) {
  return std::tie(a.device, a.cost, a.wait, a.out, a.link, a.send) ==
         std::tie(b.device, b.cost, b.wait, b.out, b.link, b.send);
}

// The longest stretch of equal rounds that contains the middle third: the least period of that third (its length minus
// its longest border, Knuth, Morris and Pratt), stretched both ways.
void find_rounds(PreparedPipeline& p) {
  const size_t count = p.steps.size(), first = count / 3, length = count / 3;
  if (length < 2) return;
  const PreparedPipeline::Step* window = p.steps.data() + first;
  std::vector<size_t> border(length, 0);
  for (size_t i = 1, k = 0; i < length; ++i) {
    while (k > 0 && !same(window[i], window[k])) k = border[k - 1];
    k += same(window[i], window[k]);
    border[i] = k;
  }
  const size_t period = length - border[length - 1];
  if (2 * period > length) return;
  size_t begin = first, end = first + length;
  while (begin > 0 && same(p.steps[begin - 1], p.steps[begin - 1 + period])) --begin;
  while (end < count && same(p.steps[end], p.steps[end - period])) ++end;
  p.first_round = begin;
  p.round_length = period;
  p.rounds = static_cast<int64_t>((end - begin) / period);
  p.touched.clear();
  const int32_t links = p.shape.num_devices, arrivals = links + p.num_links;
  for (size_t i = begin; i < begin + period; ++i)
    for (const int32_t at : {p.steps[i].device, links + p.steps[i].link, arrivals + p.steps[i].out})
      p.touched.push_back(at);
  std::sort(p.touched.begin(), p.touched.end());
  p.touched.erase(std::unique(p.touched.begin(), p.touched.end()), p.touched.end());
}

}  // namespace

PreparedPipeline prepare_pipeline(const PipelineShape& shape, const PipelineOrder& order) {
  check_whole(shape, order);
  PreparedPipeline prepared = Preparer{shape, order}.run();
  find_rounds(prepared);
  return prepared;
}

}  // namespace tern
