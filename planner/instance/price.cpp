#include "planner/instance/price.h"

#include <algorithm>

#include "base/error.h"
#include "plan/legality.h"
#include "program/pipeline_run.h"

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

// No step is shorter than what a device does in it, one after another.
std::vector<int64_t> busy_of(const PipelineShape& shape, const PipelineTimes& t) {
  std::vector<int64_t> busy;
  for (size_t d = 0; d < t.begin.size(); ++d) busy.push_back(t.begin[d] + t.tail[d]);
  for (int s = 0; s < shape.num_virtual_stages(); ++s) {
    const size_t at = static_cast<size_t>(s);
    busy[static_cast<size_t>(device_of(shape, s))] += shape.num_micro * (t.forward[at] + t.backward[at] + t.weight[at]);
  }
  return busy;
}

}  // namespace

void check_instance(const Instance& in) {
  if (in.num_stages < 1 || in.chunks_per_stage < 1 || in.num_micro < 1)
    throw Error(ErrorKind::usage, "instance: {} stages, {} chunks on each, {} micro-batches; each is at least 1",
                in.num_stages, in.chunks_per_stage, in.num_micro);
  const int chunks = in.chunks_per_stage;
  if (const std::string why = why_illegal_schedule(in.schedule, in.num_stages, chunks, in.num_micro); !why.empty())
    throw Error(ErrorKind::usage, "instance: {}", why);
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
  cache_->fixed = !order_follows_times(in.schedule);
}
Pricer::~Pricer() = default;

void Pricer::simulate(Priced& p) {
  ++simulated_;
  if (!cache_->ready || !cache_->fixed) {
    cache_->order = pipeline_order(p.shape, p.times);
    cache_->prepared = prepare_pipeline(p.shape, cache_->order);
    cache_->ready = true;
  }
  run_pipeline(cache_->prepared, p.times, cache_->scratch, cache_->run);
  p.makespan = cache_->run.makespan;
}

void Pricer::add_peaks(const Assignment& a, Priced& p) {
  const Instance& in = instance_;
  p.peak = peak_bytes(p.shape, cache_->order, stage_bytes(in, a));
  p.missing_bytes = std::numeric_limits<int64_t>::min();
  for (int d = 0; d < p.shape.num_devices; ++d)
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
}

Priced Pricer::operator()(const Assignment& a) {
  Priced p{.shape = shape_of(instance_), .times = stage_times(instance_, a), .peak = {}};
  simulate(p);
  add_peaks(a, p);
  return p;
}

std::optional<Priced> Pricer::below(const Assignment& a, int64_t upper_bound) {
  Priced p{.shape = shape_of(instance_), .times = stage_times(instance_, a), .peak = {}};
  const std::vector<int64_t> busy = busy_of(p.shape, p.times);
  if (*std::max_element(busy.begin(), busy.end()) >= upper_bound) return std::nullopt;
  simulate(p);
  if (p.makespan >= upper_bound) return std::nullopt;
  add_peaks(a, p);
  return p.fits() ? std::optional(std::move(p)) : std::nullopt;
}

Priced price(const Instance& in, const Assignment& a) { return Pricer(in)(a); }

}  // namespace tern
