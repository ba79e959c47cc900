#include "planner/instance/windows_impl.h"

#include <algorithm>
#include <cmath>

namespace tern {
namespace {

int64_t unit_time(const OptionCost& c) { return c.forward + c.backward + c.weight; }

// What a unit takes of a micro-batch, its share of the step's end included: for choosing prices, which may be any.
double time_with_end(const Chain& chain, const OptionCost& c) {
  const double end = chain.has_tail ? static_cast<double>(c.sync + c.update - c.last_gradient) : 0;
  return static_cast<double>(unit_time(c)) + std::max(0.0, end) / static_cast<double>(chain.micro);
}

}  // namespace

IntervalBounds::IntervalBounds(const Chain& chain, int64_t limit) : chain_(chain) {
  const int layers = chain.layers;
  for (auto* sums : {&forward_, &backward_, &weight_, &update_, &begin_}) sums->assign(layers + 1, 0);
  for (int u = 0; u < layers; ++u) {
    OptionCost least{.forward = kNever, .backward = kNever, .weight = kNever, .begin = kNever, .update = kNever};
    for (const UnitState& s : chain.states[u])
      for (const OptionCost& c : s.options) {
        least.forward = std::min(least.forward, c.forward);
        least.backward = std::min(least.backward, c.backward);
        least.weight = std::min(least.weight, c.weight);
        least.begin = std::min(least.begin, c.begin);
        least.update = std::min(least.update, c.update);
      }
    forward_[u + 1] = forward_[u] + least.forward;
    backward_[u + 1] = backward_[u] + least.backward;
    weight_[u + 1] = weight_[u] + least.weight;
    update_[u + 1] = update_[u] + least.update;
    begin_[u + 1] = begin_[u] + least.begin;
  }
  const auto fill_links = [&](const std::vector<std::vector<EdgeCost>>& across) {
    auto& least = link_.emplace_back(layers + 1);
    for (int u = 0; u + 1 < layers; ++u) {
      LinkCost l{kNever, kNever};
      for (const EdgeCost& e : across[u]) l = {std::min(l.forward, e.forward), std::min(l.backward, e.backward)};
      least[u + 1] = l;
    }
  };
  fill_links(chain.in->across);
  for (const auto& other : chain.in->other_across) fill_links(other);
  for (int stage = 0; stage < chain.stages; ++stage) {
    int same = 0;
    const auto equal = [&](const StageRule& a, const StageRule& b) {
      return a.held == b.held && a.held_weight == b.held_weight && a.capacity == b.capacity && a.type == b.type;
    };
    while (same < stage && !equal(chain.rule[same], chain.rule[stage])) ++same;
    if (same < stage) {
      table_of_.push_back(table_of_[same]);
      continue;
    }
    table_of_.push_back(static_cast<int>(tables_.size()));
    tables_.emplace_back();
    choose_lambdas(tables_.back(), stage);
    fill(tables_.back(), stage, limit);
  }
}

LinkCost IntervalBounds::least_link(int stage, int e) const {
  if (stage + 1 >= chain_.stages || !chain_.linked(stage)) return {};
  const auto& of = chain_.in->link_class;
  return link_[of.empty() ? 0 : of[stage]][e];
}

StageCost IntervalBounds::least(int stage, int a, int e) const {
  StageCost c;
  c.work = tables_[table_of_[stage]].work[e][e - a - 1];
  if (c.work == kNever) return c;
  c.forward = forward_[e] - forward_[a];
  c.backward = backward_[e] - backward_[a];
  c.weight = weight_[e] - weight_[a];
  c.tail = update_[e] - update_[a];
  c.begin = begin_[e] - begin_[a];
  c.pass = chain_.split ? c.forward + c.backward : c.work;
  const int64_t in_flight = chain_.rule[stage].in_flight;
  c.rest = chain_.split ? (chain_.micro - in_flight) * c.forward + (chain_.micro - 1) * c.backward
                        : (chain_.micro - in_flight) * c.work + (in_flight - 1) * c.backward;
  c.done = chain_.micro * c.work + c.tail;
  if (const auto& done = tables_[table_of_[stage]].done; !done.empty()) c.done = std::max(c.done, done[e][e - a - 1]);
  if (const auto& work_and_rest = tables_[table_of_[stage]].work_and_rest; !work_and_rest.empty())
    c.rest = std::max(c.rest, work_and_rest[e][e - a - 1] - c.work);
  return c;
}

// The relaxation's value for one run of layers and one lambda.
double IntervalBounds::relaxed(int stage, double lambda, int a, int e) const {
  const StageRule& rule = chain_.rule[stage];
  std::vector<double> now, next;
  for (int u = e - 1; u >= a; --u) {
    const auto& states = chain_.states[u];
    now.assign(states.size(), 1e300);
    for (size_t s = 0; s < states.size(); ++s) {
      if (!rule.takes(states[s])) continue;
      double unit = 1e300, way = u == e - 1 ? static_cast<double>(states[s].entry_backward) : 1e300;
      for (const OptionCost& c : states[s].options)
        unit = std::min(unit, time_with_end(chain_, c) + lambda * static_cast<double>(chain_.stage_bytes(c, rule, 0)));
      if (u < e - 1)
        for (size_t n = 0; n < next.size(); ++n) {
          const EdgeCost& edge = chain_.within(u, static_cast<int>(s), static_cast<int>(n));
          way = std::min(way, next[n] + static_cast<double>(edge.forward + edge.backward));
        }
      now[s] = unit + way + (u == a ? static_cast<double>(states[s].entry_forward) : 0);
    }
    now.swap(next);
  }
  return *std::min_element(next.begin(), next.end()) - lambda * static_cast<double>(rule.capacity[0]);
}

// The dual is concave in lambda: a search on the exponent for the stage's share of the layers, then a few values about
// it.
void IntervalBounds::choose_lambdas(Table& table, int stage) const {
  const StageRule& rule = chain_.rule[stage];
  double time = 0, bytes = 0;
  for (const auto& states : chain_.states) {
    double t0 = 1e300, t1 = 0;
    int64_t m0 = kNever, m1 = 0;
    for (const UnitState& s : states)
      for (const OptionCost& c : s.options) {
        if (!rule.takes(s)) continue;
        const double t = time_with_end(chain_, c);
        const int64_t m = chain_.stage_bytes(c, rule, 0);
        t0 = std::min(t0, t), t1 = std::max(t1, t), m0 = std::min(m0, m), m1 = std::max(m1, m);
      }
    time += t1 - t0, bytes += static_cast<double>(m1 - m0);
  }
  table.lambdas = {0};
  if (time <= 0 || bytes <= 0) return;
  const int share = (chain_.layers + chain_.stages - 1) / chain_.stages;
  const int a =
      static_cast<int>(static_cast<int64_t>(stage) * (chain_.layers - share) / std::max(1, chain_.stages - 1));
  const int e = std::min(chain_.layers, a + share);
  double low = std::log2(time / bytes) - 10, high = low + 20;
  for (int step = 0; step < 14; ++step) {
    const double m1 = low + (high - low) / 3, m2 = high - (high - low) / 3;
    if (relaxed(stage, std::exp2(m1), a, e) < relaxed(stage, std::exp2(m2), a, e))
      low = m1;
    else
      high = m2;
  }
  const double best = std::exp2((low + high) / 2);
  for (const double factor : {0.4, 0.7, 0.88, 1.0, 1.14, 1.4, 2.5}) table.lambdas.push_back(best * factor);
}

namespace {

// Per layer and state the least of time + lambda·bytes, and per layer the least bytes of each tier.
struct LeastOfLayers {
  std::vector<std::vector<double>> unit;  // (layers)(states · lambdas)
  std::vector<TierBytes> bytes;
  std::vector<int64_t> transient;
};
LeastOfLayers least_of_layers(const Chain& chain, const StageRule& rule, const std::vector<double>& lambdas) {
  const size_t num = lambdas.size();
  LeastOfLayers out{std::vector<std::vector<double>>(chain.layers), std::vector<TierBytes>(chain.layers),
                    std::vector<int64_t>(chain.layers, kNever)};
  for (int u = 0; u < chain.layers; ++u) {
    const auto& states = chain.states[u];
    out.unit[u].assign(states.size() * num, 1e300);
    out.bytes[u].fill(kNever);
    for (size_t s = 0; s < states.size(); ++s)
      for (const OptionCost& c : states[s].options) {
        if (!rule.takes(states[s])) continue;
        const int64_t bytes = chain.stage_bytes(c, rule, 0);
        for (size_t m = 0; m < num; ++m) {
          double& x = out.unit[u][s * num + m];
          x = std::min(x, static_cast<double>(unit_time(c)) + lambdas[m] * static_cast<double>(bytes));
        }
        for (int t = 0; t < kTiers; ++t) out.bytes[u][t] = std::min(out.bytes[u][t], chain.stage_bytes(c, rule, t));
        out.transient[u] = std::min(out.transient[u], c.transient);
      }
  }
  return out;
}

// Layers from one on to the end of a stage.
struct RunOfLayers {
  std::vector<double> value;  // (states of the first · lambdas): the least of time + lambda·bytes; empty: no layer yet
  TierBytes bytes{};
  int64_t transient = 0;
};
struct LeastByLambda {
  std::vector<double> best, bare;  // with what entering the stage costs, and without
};

// Puts layer u before the run.
LeastByLambda grow(const Chain& chain, const LeastOfLayers& least, int u, int num, RunOfLayers& run) {
  const auto& states = chain.states[u];
  const std::vector<double> next = std::move(run.value);
  run.value.assign(states.size() * num, 1e300);
  LeastByLambda out{std::vector<double>(num, 1e300), std::vector<double>(num, 1e300)};
  for (size_t s = 0; s < states.size(); ++s) {
    double* way = run.value.data() + s * num;
    if (next.empty()) {
      for (int m = 0; m < num; ++m) way[m] = static_cast<double>(states[s].entry_backward);
    } else {
      for (size_t n = 0; n < chain.states[u + 1].size(); ++n) {
        const EdgeCost& edge = chain.within(u, static_cast<int>(s), static_cast<int>(n));
        const double both = static_cast<double>(edge.forward + edge.backward);
        for (int m = 0; m < num; ++m) way[m] = std::min(way[m], next[n * num + m] + both);
      }
    }
    for (int m = 0; m < num; ++m) {
      way[m] += least.unit[u][s * num + m];
      out.bare[m] = std::min(out.bare[m], way[m]);
      out.best[m] = std::min(out.best[m], way[m] + static_cast<double>(states[s].entry_forward));
    }
  }
  for (int t = 0; t < kTiers; ++t) run.bytes[t] += least.bytes[u][t];
  run.transient = std::max(run.transient, least.transient[u]);
  return out;
}

// Ends whose layers to the left are of the same classes share their values: the one that shares most with e, over
// `match` layers.
struct Kin {
  int end = -1, match = 0;
};
Kin nearest_kin(const Chain& chain, const std::vector<std::vector<RunOfLayers>>& kept,
                const std::vector<int>& originals, int e) {
  Kin kin;
  for (const int o : originals) {
    int m = 0;
    const int most = std::min(e, static_cast<int>(kept[o].size()));
    while (m < most && chain.form[e - 1 - m] == chain.form[o - 1 - m]) ++m;
    if (m > kin.match) kin = {o, m};
  }
  return kin;
}

}  // namespace

void IntervalBounds::fill(Table& table, int stage, int64_t limit) const {
  const StageRule& rule = chain_.rule[stage];
  const int layers = chain_.layers;
  table.work.assign(layers + 1, {});
  const LeastOfLayers least = least_of_layers(chain_, rule, table.lambdas);
  // The values at the first layer that an end does not share are computed from the run kept there.
  std::vector<std::vector<RunOfLayers>> kept(layers + 1);  // (end)(layers − 1)
  std::vector<int> originals;
  for (int e = layers; e > 0; --e) {
    const Kin kin = nearest_kin(chain_, kept, originals, e);
    auto& out = table.work[e];
    const bool keeps = kin.match == 0 && !chain_.in->layer_class.empty();
    RunOfLayers run;
    if (kin.match > 0) {
      const auto& known = table.work[kin.end];
      out.assign(known.begin(), known.begin() + std::min<size_t>(kin.match, known.size()));
      // All shared, or as far as the end to copy from found anything below the limit.
      if (kin.match == e || static_cast<size_t>(kin.match) > known.size()) continue;
      run = kept[kin.end][kin.match - 1];
    }
    if (keeps) originals.push_back(e);
    for (int j = kin.match; j < e; ++j) {
      const LeastByLambda times = grow(chain_, least, e - 1 - j, static_cast<int>(table.lambdas.size()), run);
      if (keeps) kept[e].push_back(run);
      bool fits = run.bytes[0] + run.transient <= rule.capacity[0];
      for (int t = 1; t < kTiers; ++t) fits &= run.bytes[t] <= rule.capacity[t];
      const auto dual = [&](const std::vector<double>& of) {
        double p = 0;
        for (size_t m = 0; m < of.size(); ++m)
          p = std::max(p, of[m] - table.lambdas[m] * static_cast<double>(rule.capacity[0] - run.transient));
        return floor_safely(p);
      };
      // Bytes and bare time only grow to the left.
      if (!fits || dual(times.bare) > limit / chain_.micro) break;
      out.push_back(dual(times.best));
    }
  }
}

Windows::Windows(const Chain& chain, const IntervalBounds& bounds) {
  const int layers = chain.layers, stages = chain.stages;
  after.assign(stages + 1, std::vector<Suffix>(layers + 1));
  after_reachable.assign(stages + 1, std::vector<char>(layers + 1, 0));
  before.assign(stages + 1, std::vector<Prefix>(layers + 1));
  after_reachable[stages][layers] = 1;
  for (int i = stages - 1; i >= 0; --i)
    for (int e = layers - (stages - 1 - i); e > i; --e) {
      if (!after_reachable[i + 1][e]) continue;
      const LinkCost link = bounds.least_link(i, e);
      const int longest = std::min(bounds.longest(i, e), e - i);
      for (int a = e - 1; a >= e - longest; --a) {
        const StageCost least = bounds.least(i, a, e);
        if (least.work >= kNever) continue;
        const Suffix s = extend(chain, i, least, link, after[i + 1][e]);
        if (!after_reachable[i][a]) {
          after[i][a] = s;
          after_reachable[i][a] = 1;
        } else {
          Suffix& o = after[i][a];
          o = {std::min(o.round_trip, s.round_trip),
               std::min(o.span, s.span),
               std::min(o.finish, s.finish),
               std::min(o.step, s.step),
               std::min(o.forward, s.forward),
               std::min(o.backward, s.backward),
               std::min(o.mean, s.mean)};
        }
      }
    }
  bound = after_reachable[0][0] ? complete(chain, 0, after[0][0], {}) : kNever;
}

void Windows::restrict(const Chain& chain, const IntervalBounds& bounds, int64_t limit) {
  for (auto& row : before) std::fill(row.begin(), row.end(), Prefix{});
  before[0][0].reachable = after_reachable[0][0] && complete(chain, 0, after[0][0], {}) <= limit;
  for (int i = 0; i < chain.stages; ++i)
    for (int e = i + 1; e <= chain.layers - (chain.stages - 1 - i); ++e) {
      if (!after_reachable[i + 1][e]) continue;
      const LinkCost link = bounds.least_link(i, e);
      const int longest = std::min(bounds.longest(i, e), e - i);
      Prefix& to = before[i + 1][e];
      for (int a = e - 1; a >= e - longest; --a) {
        const Prefix& from = before[i][a];
        if (!from.reachable) continue;
        const StageCost least = bounds.least(i, a, e);
        if (least.work >= kNever || complete(chain, i, extend(chain, i, least, link, after[i + 1][e]), from) > limit)
          continue;
        const Prefix p{.sum = from.sum + (chain.kind == BoundKind::simple ? least.work : least.pass) + link.forward +
                              link.backward,
                       .forward = from.forward + least.forward + link.forward,
                       .most = std::max(from.most, most_share(chain, least)),
                       .mean = from.mean + mean_share(chain, i, least, link),
                       .reachable = true};
        if (complete(chain, i + 1, after[i + 1][e], p) > limit) continue;
        to = to.reachable ? Prefix{std::min(to.sum, p.sum), std::min(to.forward, p.forward), std::min(to.most, p.most),
                                   std::min(to.mean, p.mean), true}
                          : p;
      }
    }
}

}  // namespace tern
