#include "program/stage_model.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

const CostVector& cost(const Instance& in, const Assignment& a, int u) { return in.cost[u][a.strategy[u]]; }

const EdgeCost& edge(const std::vector<std::vector<EdgeCost>>& edges, const Instance& in, const Assignment& a, int u) {
  return edges[u][a.strategy[u] * in.cost[u + 1].size() + a.strategy[u + 1]];
}

// What the stages hold in one tier. Temporaries, and what weight gradients wait for, lie on the device.
struct TierHolds {
  std::vector<int64_t> held, held_weight, transient;
  TierHolds(const PipelineShape& shape, const AssignmentBytes& b, int tier) {
    const bool device = tier == static_cast<int>(Tier::device), split = splits_backward(shape.schedule);
    for (const StageBytes& s : b.stages) {
      held.push_back(s.held[tier]);
      held_weight.push_back(device && split ? s.held_weight : 0);
      transient.push_back(device ? s.transient : 0);
    }
  }
};

}  // namespace

PipelineShape shape_of(const Instance& in) {
  return {.schedule = in.schedule,
          .num_devices = in.num_stages,
          .chunks_per_device = in.chunks_per_stage,
          .num_micro = in.num_micro};
}

std::vector<StageRange> stage_ranges(const Instance& in, const Assignment& a) {
  const int stages = in.num_stages * in.chunks_per_stage, layers = in.num_layers();
  if (static_cast<int>(a.stage.size()) != layers || static_cast<int>(a.strategy.size()) != layers)
    throw Error(ErrorKind::usage, "assignment: {} stages and {} strategies, expected {}: one for each layer",
                a.stage.size(), a.strategy.size(), layers);
  std::vector<StageRange> ranges;
  for (int u = 0; u < layers; ++u) {
    if (a.strategy[u] < 0 || a.strategy[u] >= static_cast<int>(in.cost[u].size()))
      throw Error(ErrorKind::usage, "assignment: layer {} has strategy {}, it has {}", u, a.strategy[u],
                  in.cost[u].size());
    const int previous = u == 0 ? -1 : a.stage[u - 1];
    if (a.stage[u] == previous + 1)
      ranges.push_back({u, u + 1});
    else if (u > 0 && a.stage[u] == previous)
      ranges.back().end = u + 1;
    else
      throw Error(ErrorKind::usage, "assignment: layer {} in stage {} after stage {}; stages follow one another", u,
                  a.stage[u], previous);
  }
  if (static_cast<int>(ranges.size()) != stages)
    throw Error(ErrorKind::usage, "assignment: {} stages, expected {}", ranges.size(), stages);
  return ranges;
}

StageTimes::StageTimes(const PipelineShape& shape)
    : split_(splits_backward(shape.schedule)),
      host_forward_(static_cast<size_t>(shape.num_virtual_stages()), 0),
      host_backward_(host_forward_),
      update_(static_cast<size_t>(shape.num_devices), 0) {
  times_.forward = times_.backward = times_.weight = host_forward_;
  times_.begin = times_.tail = update_;
  for (int s = 0; s < shape.num_virtual_stages(); ++s) device_.push_back(device_of(shape, s));
}

void StageTimes::add(int stage, const CostVector& c, const EdgeCost& within, bool first, bool last) {
  const auto s = static_cast<size_t>(stage), d = static_cast<size_t>(device_[s]);
  times_.forward[s] += c.forward + within.forward + (first ? c.entry_forward : 0);
  times_.backward[s] += c.backward + c.recompute + within.backward + (last ? c.entry_backward : 0);
  times_.weight[s] += c.weight;
  host_forward_[s] += c.host_forward, host_backward_[s] += c.host_backward;
  times_.begin[d] += c.begin, update_[d] += c.update;
  const int64_t meanwhile = split_ ? c.weight : c.backward + c.recompute + c.weight + within.backward;
  times_.tail[d] = std::max<int64_t>(times_.tail[d] - meanwhile, 0) + c.sync;
}

PipelineTimes StageTimes::finish() {
  for (size_t s = 0; s < host_forward_.size(); ++s) {
    times_.forward[s] = std::max(times_.forward[s], host_forward_[s]);
    times_.backward[s] = std::max(times_.backward[s], host_backward_[s] - (split_ ? 0 : times_.weight[s]));
  }
  for (size_t d = 0; d < update_.size(); ++d) times_.tail[d] += update_[d];
  return std::move(times_);
}

PipelineTimes stage_times(const Instance& in, const Assignment& a) {
  const std::vector<StageRange> ranges = stage_ranges(in, a);
  StageTimes sum(shape_of(in));
  const int stages = static_cast<int>(ranges.size());
  for (int s = stages - 1; s >= 0; --s) {
    const auto [begin, end] = ranges[s];
    for (int u = end - 1; u >= begin; --u)
      sum.add(s, cost(in, a, u), u + 1 < end ? edge(in.within, in, a, u) : EdgeCost{}, u == begin, u + 1 == end);
  }
  PipelineTimes t = sum.finish();
  for (int s = 0; s + 1 < stages; ++s) {
    const EdgeCost& link = edge(links_behind(in, s), in, a, ranges[s].end - 1);
    t.send_forward.push_back(link.forward);
    t.send_backward.push_back(link.backward);
  }
  return t;
}

AssignmentBytes stage_bytes(const Instance& in, const Assignment& a) {
  const std::vector<StageRange> ranges = stage_ranges(in, a);
  const PipelineShape shape = shape_of(in);
  AssignmentBytes b{std::vector<TierBytes>(static_cast<size_t>(in.num_stages), TierBytes{}),
                    std::vector<StageBytes>(ranges.size())};
  for (int s = 0; s < static_cast<int>(ranges.size()); ++s)
    for (int u = ranges[s].begin; u < ranges[s].end; ++u) {
      const CostVector& c = cost(in, a, u);
      for (int tier = 0; tier < kTiers; ++tier) {
        b.persistent[device_of(shape, s)][tier] += c.persistent[tier];
        b.stages[s].held[tier] += c.held[tier];
      }
      b.stages[s].held_weight += c.held_weight;
      b.stages[s].transient = std::max(b.stages[s].transient, c.transient);
    }
  return b;
}

std::vector<TierBytes> peak_bytes(const PipelineShape& shape, const PipelineOrder& order, const AssignmentBytes& b) {
  std::vector<TierBytes> peak = b.persistent;
  for (int tier = 0; tier < kTiers; ++tier) {
    const TierHolds h(shape, b, tier);
    const std::vector<int64_t> most = pipeline_peaks(shape, order, h.held, h.held_weight, h.transient);
    for (size_t d = 0; d < peak.size(); ++d) peak[d][tier] += most[d];
  }
  return peak;
}

std::vector<PipelinePeak> peak_moments(const PipelineShape& shape, const PipelineOrder& order, const AssignmentBytes& b,
                                       Tier tier) {
  const TierHolds h(shape, b, static_cast<int>(tier));
  return pipeline_peak_moments(shape, order, h.held, h.held_weight, h.transient);
}

}  // namespace tern
