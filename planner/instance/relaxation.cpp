#include "planner/instance/relaxation_impl.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tern {
namespace {

constexpr double kFar = 1e300;

double d(int64_t x) { return static_cast<double>(x); }

PathTerms no_terms(const Chain& c) {
  const std::vector<double> stages(static_cast<size_t>(c.stages), 0), links(static_cast<size_t>(c.stages - 1), 0),
      devices(static_cast<size_t>(c.devices), 0);
  return {stages, stages, stages, stages, stages, stages, links, links, devices, devices, devices};
}

}  // namespace

constexpr std::vector<double> PathTerms::*kTerms[] = {
    &PathTerms::forward,       &PathTerms::backward, &PathTerms::weight,       &PathTerms::host_forward,
    &PathTerms::host_backward, &PathTerms::sync,     &PathTerms::send_forward, &PathTerms::send_backward,
    &PathTerms::begin,         &PathTerms::update,   &PathTerms::bytes};

void mix_in(PathTerms& a, const PathTerms& b, double share) {
  for (const auto of : kTerms)
    for (size_t i = 0; i < (a.*of).size(); ++i) (a.*of)[i] += share * ((b.*of)[i] - (a.*of)[i]);
}

std::vector<PathTerms> mean_paths(const Chain& c) {
  const double share = 1.0 / c.devices;
  PathTerms work = no_terms(c);
  for (auto of : {&PathTerms::forward, &PathTerms::backward, &PathTerms::weight})
    std::fill((work.*of).begin(), (work.*of).end(), share * d(c.micro));
  // Every device begins, works and ends with its tail.
  PathTerms own = work;
  std::fill(own.begin.begin(), own.begin.end(), share);
  std::fill(own.update.begin(), own.update.end(), share);
  PathTerms own_sync = own;
  std::fill(own_sync.sync.begin(), own_sync.sync.end(), share);
  // The first micro-batch's way to the device's lowest stage before it; after it the tail.
  PathTerms led = work;
  led.begin[0] = 1;
  for (int s = 0; s + 1 < c.devices; ++s) {
    const size_t at = static_cast<size_t>(s);
    const double behind = share * (c.devices - 1 - s);
    led.forward[at] += behind;
    led.send_forward[at] += behind;
  }
  PathTerms led_tail = led;
  std::fill(led_tail.update.begin(), led_tail.update.end(), share);
  const auto half = [&](const PathTerms& a) {
    PathTerms m = own_sync;
    mix_in(m, a, 0.5);
    return m;
  };
  std::vector<PathTerms> all{own, own_sync, led_tail, half(led_tail)};
  // The first micro-batch's way to the last stage and back; with one stage to a device then, on the average one, the backwards and
  // forwards that are left.
  PathTerms trip = no_terms(c);
  trip.begin[0] = trip.update[0] = 1;
  for (auto of : {&PathTerms::forward, &PathTerms::backward, &PathTerms::send_forward, &PathTerms::send_backward})
    std::fill((trip.*of).begin(), (trip.*of).end(), 1);
  if (c.devices == c.stages && c.order_fixed)
    for (size_t s = 0; s < trip.forward.size(); ++s) {
      trip.forward[s] += share * d(c.micro - c.rule[s].in_flight);
      trip.backward[s] += share * d(c.micro - 1);
    }
  if (!c.split) trip.weight = trip.backward;
  all.push_back(trip);
  if (c.split || !c.order_fixed) return all;
  // Where backwards end the order: the last one's way back to the first stage, and its tail.
  PathTerms both = led;
  both.update[0] = 1;
  for (int s = 0; s + 1 < c.devices; ++s) {
    const size_t at = static_cast<size_t>(s);
    const double behind = share * (c.devices - 1 - s);
    both.backward[at] += behind;
    both.weight[at] += behind;
    both.send_backward[at] += behind;
  }
  all.push_back(both);
  all.push_back(half(both));
  return all;
}

Relaxation::Relaxation(const Chain& chain)
    : chain_(chain), layers_(chain.layers), stages_(chain.stages), rows_(static_cast<size_t>(chain.layers)) {
  const Instance& in = *chain.in;
  double time = 0, bytes = 0;
  for (int u = 0; u < layers_; ++u) {
    const size_t at = static_cast<size_t>(u), form = static_cast<size_t>(chain.form[at]);
    auto& rows = rows_[form];
    if (form == at) {
      // The last gradient operation of a unit has the resharding behind it.
      int64_t behind = 0;
      if (u + 1 < layers_ && !chain.split)
        for (const EdgeCost& e : in.within[at]) behind = std::max(behind, e.backward);
      for (const UnitState& s : chain.states[at])
        for (const OptionCost& o : s.options)
          rows.push_back({o.strategy, s.type, d(o.forward), d(o.backward), d(o.weight), d(o.host_forward),
                          d(o.host_backward), d(o.sync - o.last_gradient - behind), d(o.begin), d(o.update),
                          d(s.entry_forward), d(s.entry_backward), d(o.persistent[0]), d(o.held[0]), d(o.held_weight)});
    }
    double least_time = kFar, least_bytes = kFar;
    for (const Row& r : rows) {
      least_time = std::min(least_time, r.forward + r.backward + r.weight);
      least_bytes = std::min(least_bytes, r.persistent + r.held);
    }
    time += least_time, bytes += least_bytes;
  }
  scale_ = bytes > 0 ? time * d(chain.micro) / bytes : 0;
  const auto fill_links = [&](const std::vector<std::vector<EdgeCost>>& across) {
    across_.emplace_back();
    for (const auto& edges : across) {
      EdgeCost least{kNever, kNever};
      for (const EdgeCost& e : edges)
        least = {std::min(least.forward, e.forward), std::min(least.backward, e.backward)};
      across_.back().push_back(least);
    }
  };
  fill_links(in.across);
  for (const auto& other : in.other_across) fill_links(other);
  const bool joint = chain.stages > chain.devices;
  for (const StageRule& r : chain.rule) {
    held_.push_back(d(joint ? r.joint_held : r.held));
    held_weight_.push_back(d(joint ? r.joint_held_weight : r.held_weight));
  }
  for (const TierBytes& c : in.capacity) room_.push_back(d(c[0]));
  // A working layer's transient bytes: on each device at least the least of any; where a device has one stage of a
  // fixed order, the device of the layer that needs most has those.
  int64_t least_transient = kNever, most_transient = 0;
  for (const auto& states : chain.states) {
    int64_t least = kNever;
    for (const UnitState& s : states)
      for (const OptionCost& o : s.options) least = std::min(least, o.transient);
    least_transient = std::min(least_transient, least), most_transient = std::max(most_transient, least);
  }
  for (double& r : room_) r -= d(least_transient);
  if (chain.exact_memory) unshared_ = d(most_transient - least_transient);
  set_dear(std::vector<double>(room_.size(), 1));
  for (auto& a : after_) a.assign(static_cast<size_t>(layers_) * static_cast<size_t>(stages_), kFar);
  cell_.resize(static_cast<size_t>(layers_));
}

void Relaxation::set_dear(std::vector<double> dear) {
  dear_ = std::move(dear);
  dear_room_ = -unshared_ * *std::min_element(dear_.begin(), dear_.end());
  for (size_t i = 0; i < room_.size(); ++i) dear_room_ += dear_[i] * room_[i];
}

double Relaxation::cost(const Row& r, int stage) const {
  const PathTerms& w = weights_;
  const size_t s = static_cast<size_t>(stage), device = static_cast<size_t>(chain_.rule[s].device);
  return w.forward[s] * r.forward + w.backward[s] * r.backward + w.weight[s] * r.weight +
         w.host_forward[s] * r.host_forward + w.host_backward[s] * r.host_backward + w.sync[s] * r.sync +
         w.begin[device] * r.begin + w.update[device] * r.update + mu_ * dear_[device] * bytes(r, stage);
}

double Relaxation::link(int u, int stage) const {
  if (!chain_.linked(stage)) return 0;
  const size_t s = static_cast<size_t>(stage);
  const EdgeCost& e = least_behind(u, s);
  return weights_.send_forward[s] * d(e.forward) + weights_.send_backward[s] * d(e.backward);
}

double Relaxation::least(const PathTerms& weights, double mu) {
  weights_ = weights, mu_ = mu;
  for (int u = 0; u < layers_; ++u) {
    const size_t form = static_cast<size_t>(u);
    if (chain_.form[form] != u) continue;
    auto& cells = cell_[form];
    cells.assign(4 * static_cast<size_t>(stages_), kFar);
    for (int s = 0; s < stages_; ++s) {
      double* x = cells.data() + 4 * static_cast<size_t>(s);
      for (const Row& r : rows_[form]) {
        if (!takes(s, r)) continue;
        const double inside = cost(r, s), first = as_first(r, s), last = as_last(r, s);
        x[0] = std::min(x[0], inside);
        x[1] = std::min(x[1], inside + last);
        x[2] = std::min(x[2], inside + first);
        x[3] = std::min(x[3], inside + first + last);
      }
    }
  }
  const auto cell = [&](int u, int s, int first, int last) {
    return cell_[static_cast<size_t>(chain_.form[static_cast<size_t>(u)])]
                [4 * static_cast<size_t>(s) + static_cast<size_t>(2 * first + last)];
  };
  // after_[0]: the stage goes on behind layer u; after_[1]: it ends with it.
  for (int u = layers_ - 1; u >= 0; --u)
    for (int s = lowest(u); s <= highest(u); ++s) {
      double goes_on = kFar, ends = kFar;
      if (u + 1 == layers_) {
        if (s + 1 == stages_) ends = 0;
      } else {
        if (s >= lowest(u + 1) && s <= highest(u + 1))
          goes_on =
              std::min(cell(u + 1, s, 0, 0) + after_[0][at(u + 1, s)], cell(u + 1, s, 0, 1) + after_[1][at(u + 1, s)]);
        if (s + 1 < stages_ && s + 1 <= highest(u + 1))
          ends = link(u, s) + std::min(cell(u + 1, s + 1, 1, 0) + after_[0][at(u + 1, s + 1)],
                                       cell(u + 1, s + 1, 1, 1) + after_[1][at(u + 1, s + 1)]);
      }
      after_[0][at(u, s)] = goes_on, after_[1][at(u, s)] = ends;
    }
  return std::min(cell(0, 0, 1, 0) + after_[0][0], cell(0, 0, 1, 1) + after_[1][0]) - mu * dear_room_;
}

Assignment Relaxation::assignment() const {
  Assignment a;
  bool first = true;
  for (int u = 0, stage = 0; u < layers_; ++u) {
    const size_t form = static_cast<size_t>(chain_.form[static_cast<size_t>(u)]);
    const auto least_with = [&](bool last) {
      double x = kFar;
      int strategy = rows_[form].front().strategy;
      for (const Row& r : rows_[form])
        if (const double c = cost(r, stage) + (first ? as_first(r, stage) : 0) + (last ? as_last(r, stage) : 0);
            takes(stage, r) && c < x)
          x = c, strategy = r.strategy;
      return std::pair(x + after_[last][at(u, stage)], strategy);
    };
    const auto goes_on = least_with(false), ends = least_with(true);
    const bool last = ends.first < goes_on.first;
    a.stage.push_back(stage);
    a.strategy.push_back(last ? ends.second : goes_on.second);
    stage += last;
    first = last;
  }
  return a;
}

PathTerms Relaxation::amounts(const Assignment& a) const {
  PathTerms t = no_terms(chain_);
  for (int u = 0; u < layers_; ++u) {
    const size_t at = static_cast<size_t>(u), s = static_cast<size_t>(a.stage[at]);
    const size_t device = static_cast<size_t>(chain_.rule[s].device);
    const auto& rows = rows_[static_cast<size_t>(chain_.form[at])];
    const Row& r = *std::find_if(rows.begin(), rows.end(), [&](const Row& x) { return x.strategy == a.strategy[at]; });
    const bool first = u == 0 || a.stage[at - 1] != a.stage[at],
               last = u + 1 == layers_ || a.stage[at + 1] != a.stage[at];
    t.forward[s] += r.forward + (first ? r.entry_forward : 0);
    t.backward[s] += r.backward + (last ? r.entry_backward : 0);
    t.weight[s] += r.weight;
    t.host_forward[s] += r.host_forward, t.host_backward[s] += r.host_backward;
    t.sync[s] += r.sync;
    t.begin[device] += r.begin, t.update[device] += r.update;
    t.bytes[device] += bytes(r, a.stage[at]);
    if (!last || u + 1 == layers_ || !chain_.linked(a.stage[at])) continue;
    const EdgeCost& e = least_behind(u, s);
    t.send_forward[s] = d(e.forward), t.send_backward[s] = d(e.backward);
  }
  return t;
}

PathTerms Relaxation::even_amounts() const {
  PathTerms t = no_terms(chain_);
  const auto spread = [&](std::vector<double>& to, auto of) {
    double sum = 0;
    for (int u = 0; u < layers_; ++u) {
      double least = kFar;
      for (const Row& r : rows_[static_cast<size_t>(chain_.form[static_cast<size_t>(u)])])
        least = std::min(least, of(r));
      sum += least;
    }
    std::fill(to.begin(), to.end(), sum / static_cast<double>(to.size()));
  };
  spread(t.forward, [](const Row& r) { return r.forward; });
  spread(t.backward, [](const Row& r) { return r.backward; });
  spread(t.weight, [](const Row& r) { return r.weight; });
  spread(t.begin, [](const Row& r) { return r.begin; });
  spread(t.update, [](const Row& r) { return r.update; });
  return t;
}

std::vector<std::vector<double>> Relaxation::with_each_strategy() const {
  // before[first][u][s]: least of what lies before layer u in stage s, which begins there or has begun.
  std::vector<double> before[2];
  for (auto& b : before) b.assign(after_[0].size(), kFar);
  before[1][0] = 0;
  const auto cell = [&](int u, int s, size_t first, size_t last) {
    return cell_[static_cast<size_t>(chain_.form[static_cast<size_t>(u)])]
                [4 * static_cast<size_t>(s) + 2 * first + last];
  };
  std::vector<std::vector<double>> with(static_cast<size_t>(layers_));
  for (int u = 0; u < layers_; ++u) {
    const size_t form = static_cast<size_t>(chain_.form[static_cast<size_t>(u)]);
    auto& best = with[form];
    if (best.empty()) best.assign(chain_.in->cost[form].size(), kFar);
    for (int s = lowest(u); s <= highest(u); ++s)
      for (const size_t first : {0, 1}) {
        const double until = before[first][at(u, s)];
        if (until >= kFar) continue;
        for (const size_t last : {0, 1}) {
          const double from = until + after_[last][at(u, s)];
          if (from < kFar)
            for (const Row& r : rows_[form]) {
              if (!takes(s, r)) continue;
              double& x = best[static_cast<size_t>(r.strategy)];
              x = std::min(
                  x, from + cost(r, s) + (first ? as_first(r, s) : 0) + (last ? as_last(r, s) : 0) - mu_ * dear_room_);
            }
          if (u + 1 == layers_ || (last && s + 1 == stages_)) continue;
          double& x = before[last][at(u + 1, s + static_cast<int>(last))];
          x = std::min(x, until + cell(u, s, first, last) + (last ? link(u, s) : 0));
        }
      }
  }
  return with;
}

double Relaxation::price_memory(const PathTerms& weights, int steps) {
  double best = least(weights, 0), best_mu = 0;
  if (scale_ <= 0) return best;
  // Concave in mu: the golden section of its exponent.
  double low = std::log2(scale_ / chain_.devices) - 12, high = low + 16;
  const auto value = [&](double exponent) {
    const double mu = std::exp2(exponent), x = least(weights, mu);
    if (x > best) best = x, best_mu = mu;
    return x;
  };
  constexpr double kGolden = 0.6180339887498949;
  double a = high - kGolden * (high - low), b = low + kGolden * (high - low);
  double at_a = value(a), at_b = value(b);
  for (int step = 2; step < steps; ++step) {
    if (at_a < at_b) {
      low = a, a = b, at_a = at_b;
      at_b = value(b = low + kGolden * (high - low));
    } else {
      high = b, b = a, at_b = at_a;
      at_a = value(a = high - kGolden * (high - low));
    }
  }
  mu_ = best_mu;
  return best;
}

}  // namespace tern
