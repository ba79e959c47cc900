#include "planner/instance/price.h"

#include <algorithm>

#include "base/error.h"

namespace tern {
namespace {

void check_table(const char* name, size_t at, size_t got, size_t want) {
  if (got != want)
    throw Error(ErrorKind::usage,
                "instance: {} of layer {} has {} entries, expected {}: one for each pair of strategies", name, at, got,
                want);
}

void check_edges(const char* name, const Instance& in, const std::vector<std::vector<EdgeCost>>& edges) {
  if (edges.size() + 1 != in.cost.size())
    throw Error(ErrorKind::usage, "instance: {} has {} edges, expected {}: one between neighbouring layers", name,
                edges.size(), in.cost.size() - 1);
  for (size_t u = 0; u < edges.size(); ++u) {
    check_table(name, u, edges[u].size(), in.cost[u].size() * in.cost[u + 1].size());
    for (const EdgeCost& e : edges[u])
      if (e.forward < 0 || e.backward < 0)
        throw Error(ErrorKind::usage, "instance: {} of layer {} is negative; times are at least 0", name, u);
  }
}

void check_unlike(const Instance& in) {
  const size_t links = static_cast<size_t>(in.num_stages) * in.chunks_per_stage - 1;
  if (!in.link_class.empty() && in.link_class.size() != links)
    throw Error(ErrorKind::usage, "instance: {} classes of links, expected {}: one between neighbouring stages",
                in.link_class.size(), links);
  for (const int c : in.link_class)
    if (c < 0 || c > static_cast<int>(in.other_across.size()))
      throw Error(ErrorKind::usage, "instance: a link of class {}, there are {}", c, 1 + in.other_across.size());
  if (in.stage_type.empty() != in.strategy_type.empty() ||
      (!in.stage_type.empty() && static_cast<int>(in.stage_type.size()) != in.num_stages))
    throw Error(ErrorKind::usage, "instance: types of {} stages and of {} layers' strategies, expected {} and {}",
                in.stage_type.size(), in.strategy_type.size(), in.num_stages, in.cost.size());
  if (in.strategy_type.empty()) return;
  if (in.strategy_type.size() != in.cost.size())
    throw Error(ErrorKind::usage, "instance: types of {} layers' strategies, expected {}", in.strategy_type.size(),
                in.cost.size());
  for (size_t u = 0; u < in.cost.size(); ++u)
    check_table("strategy_type", u, in.strategy_type[u].size(), in.cost[u].size());
}

int64_t least(const CostVector& c) {
  int64_t m = std::min({c.forward, c.backward, c.weight, c.recompute, c.host_forward, c.host_backward, c.entry_forward,
                        c.entry_backward, c.begin, c.sync, c.update, c.held_weight, c.transient});
  for (int t = 0; t < kTiers; ++t) m = std::min({m, c.persistent[t], c.held[t]});
  return m;
}

struct StageRange {
  int begin, end;
};

std::vector<StageRange> ranges_of(const Instance& in, const Assignment& a) {
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

const EdgeCost& edge(const std::vector<std::vector<EdgeCost>>& edges, const Instance& in, const Assignment& a, int u) {
  return edges[u][a.strategy[u] * in.cost[u + 1].size() + a.strategy[u + 1]];
}

// One device's gradient link and update, over its virtual stages.
struct Tail {
  int64_t backlog = 0, update = 0;
  void unit(const CostVector& c, int64_t time) {
    backlog = std::max<int64_t>(backlog - time, 0) + c.sync;
    update += c.update;
  }
};

struct StageBytes {
  TierBytes held{};
  int64_t held_weight = 0, transient = 0;
};

}  // namespace

PipelineShape shape_of(const Instance& in) {
  return {.schedule = in.schedule,
          .num_devices = in.num_stages,
          .chunks_per_device = in.chunks_per_stage,
          .num_micro = in.num_micro};
}

void check_instance(const Instance& in) {
  if (in.num_stages < 1 || in.chunks_per_stage < 1 || in.num_micro < 1)
    throw Error(ErrorKind::usage, "instance: {} stages, {} chunks on each, {} micro-batches; each is at least 1",
                in.num_stages, in.chunks_per_stage, in.num_micro);
  const bool v = is_v_shaped(in.schedule);
  const int chunks = in.chunks_per_stage;
  if (v ? chunks != 2 : in.schedule != PipelineSchedule::interleaved && chunks != 1)
    throw Error(ErrorKind::usage, "instance: {} with {} chunks on each stage, expected {}", name_of(in.schedule),
                chunks, v ? 2 : 1);
  if (in.schedule == PipelineSchedule::interleaved && in.num_micro % in.num_stages != 0)
    throw Error(ErrorKind::usage, "instance: interleaved with {} micro-batches on {} stages, expected a multiple",
                in.num_micro, in.num_stages);
  if (in.num_layers() < in.num_stages * chunks)
    throw Error(ErrorKind::usage,
                "instance: {} layers for {} stages; every stage holds at least one: take fewer stages", in.num_layers(),
                in.num_stages * chunks);
  for (size_t u = 0; u < in.cost.size(); ++u) {
    if (in.cost[u].empty()) throw Error(ErrorKind::usage, "instance: layer {} has no strategy; it needs one", u);
    for (const CostVector& c : in.cost[u])
      if (least(c) < 0)
        throw Error(ErrorKind::usage, "instance: layer {} has a negative cost; times and bytes are at least 0", u);
  }
  check_edges("within", in, in.within);
  check_edges("across", in, in.across);
  for (const auto& other : in.other_across) check_edges("other_across", in, other);
  check_unlike(in);
  if (static_cast<int>(in.capacity.size()) != in.num_stages)
    throw Error(ErrorKind::usage, "instance: {} capacities, expected {}: one for each stage", in.capacity.size(),
                in.num_stages);
  if (!in.layer_class.empty() && in.layer_class.size() != in.cost.size())
    throw Error(ErrorKind::usage, "instance: {} layer classes, expected {} or none", in.layer_class.size(),
                in.cost.size());
  if (const double longest = longest_step(in); longest >= kMostStepPs)
    throw Error(ErrorKind::usage,
                "instance: a step may take {:.3g} ps, expected less than {:.3g}: longer ones are not counted", longest,
                kMostStepPs);
}

double longest_step(const Instance& in) {
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  double micro = 0, once = 0;
  for (const auto& row : in.cost) {
    double most = 0, most_once = 0;
    for (const CostVector& c : row) {
      most = std::max(most, d(c.forward) + d(c.backward) + d(c.weight) + d(c.recompute) + d(c.host_forward) +
                                d(c.host_backward) + d(c.entry_forward) + d(c.entry_backward));
      most_once = std::max(most_once, d(c.begin) + d(c.sync) + d(c.update));
    }
    micro += most, once += most_once;
  }
  const auto most_of = [&](const std::vector<EdgeCost>& row) {
    double most = 0;
    for (const EdgeCost& e : row) most = std::max(most, d(e.forward) + d(e.backward));
    return most;
  };
  for (size_t u = 0; u + 1 < in.cost.size(); ++u) {
    double link = most_of(in.across[u]);
    for (const auto& other : in.other_across) link = std::max(link, most_of(other[u]));
    micro += link + most_of(in.within[u]);
  }
  return micro * in.num_micro + once;
}

int64_t simple_objective(const PipelineShape& shape, const PipelineTimes& t) {
  int64_t sum = 0, most = 0;
  const auto add = [&](int64_t x) {
    sum += x;
    most = std::max(most, x);
  };
  for (size_t s = 0; s < t.forward.size(); ++s) add(t.forward[s] + t.backward[s] + t.weight[s]);
  for (size_t s = 0; s < t.send_forward.size(); ++s) add(t.send_forward[s] + t.send_backward[s]);
  return sum + (shape.num_micro - 1) * most;
}

struct Pricer::Cache {
  bool fixed = false;  // the order ignores the times
  bool ready = false;
  PipelineOrder order;
  PreparedPipeline prepared;
  PipelineScratch scratch;
  PipelineRun run;
};

Pricer::Pricer(const Instance& in) : instance_(in), cache_(std::make_unique<Cache>()) {
  check_instance(in);
  cache_->fixed = in.schedule != PipelineSchedule::zb_h1 && in.schedule != PipelineSchedule::zb_h2;
}
Pricer::~Pricer() = default;

Priced Pricer::operator()(const Assignment& a) {
  const Instance& in = instance_;
  const auto ranges = ranges_of(in, a);
  const bool split = splits_backward(in.schedule);
  Priced p{.shape = shape_of(in), .times = {}, .peak = {}};
  const int stages = p.shape.num_stages(), devices = p.shape.num_devices;
  PipelineTimes& t = p.times;
  t.begin.assign(devices, 0);
  std::vector<StageBytes> bytes(stages);
  std::vector<TierBytes> persistent(devices, TierBytes{});
  std::vector<Tail> tails(devices);
  t.forward.resize(stages);
  t.backward.resize(stages);
  t.weight.resize(stages);

  for (int s = stages - 1; s >= 0; --s) {
    const auto [begin, end] = ranges[s];
    const int d = device_of(p.shape, s);
    int64_t forward = 0, backward = 0, weight = 0, host_forward = 0, host_backward = 0;
    for (int u = end - 1; u >= begin; --u) {
      const CostVector& c = in.cost[u][a.strategy[u]];
      const EdgeCost link = u + 1 < end ? edge(in.within, in, a, u) : EdgeCost{};
      forward += c.forward + link.forward;
      backward += c.backward + c.recompute + link.backward;
      weight += c.weight;
      host_forward += c.host_forward;
      host_backward += c.host_backward;
      if (u == begin) forward += c.entry_forward;
      if (u == end - 1) backward += c.entry_backward;
      t.begin[d] += c.begin;
      tails[d].unit(c, split ? c.weight : c.backward + c.recompute + c.weight + link.backward);
      for (int tier = 0; tier < kTiers; ++tier) {
        persistent[d][tier] += c.persistent[tier];
        bytes[s].held[tier] += c.held[tier];
      }
      bytes[s].held_weight += c.held_weight;
      bytes[s].transient = std::max(bytes[s].transient, c.transient);
    }
    t.forward[s] = std::max(forward, host_forward);
    t.backward[s] = std::max(backward, host_backward - (split ? 0 : weight));
    t.weight[s] = weight;
  }
  for (const Tail& x : tails) t.tail.push_back(x.backlog + x.update);
  for (int s = 0; s + 1 < stages; ++s) {
    const EdgeCost& e = edge(links_behind(in, s), in, a, ranges[s].end - 1);
    t.send_forward.push_back(e.forward);
    t.send_backward.push_back(e.backward);
  }

  if (!cache_->ready || !cache_->fixed) {
    cache_->order = pipeline_order(p.shape, t);
    cache_->prepared = prepare_pipeline(p.shape, cache_->order);
    cache_->ready = true;
  }
  run_pipeline(cache_->prepared, t, cache_->scratch, cache_->run);
  p.makespan = cache_->run.makespan;

  p.peak = persistent;
  std::vector<int64_t> held(stages), held_weight(stages), transient(stages);
  for (int tier = 0; tier < kTiers; ++tier) {
    for (int s = 0; s < stages; ++s) {
      held[s] = bytes[s].held[tier];
      held_weight[s] = tier == 0 && split ? bytes[s].held_weight : 0;
      transient[s] = tier == 0 ? bytes[s].transient : 0;
    }
    const auto peaks = pipeline_peaks(p.shape, cache_->order, held, held_weight, transient);
    for (int d = 0; d < devices; ++d) p.peak[d][tier] += peaks[d];
  }
  p.missing_bytes = std::numeric_limits<int64_t>::min();
  for (int d = 0; d < devices; ++d)
    for (int tier = 0; tier < kTiers; ++tier)
      if (const int64_t missing = p.peak[d][tier] - in.capacity[d][tier]; missing > p.missing_bytes) {
        p.missing_bytes = missing;
        p.device = d;
        p.tier = static_cast<Tier>(tier);
      }
  // A strategy on devices that cannot run it lacks more than any capacity.
  for (int u = 0; u < in.num_layers(); ++u)
    if (const int d = device_of(p.shape, a.stage[u]); !runs_on(in, type_of_stage(in, d), u, a.strategy[u]))
      p.device = d, p.tier = Tier::device, p.missing_bytes = int64_t{1} << 60;
  return p;
}

Priced price(const Instance& in, const Assignment& a) { return Pricer(in)(a); }

}  // namespace tern
