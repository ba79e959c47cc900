#include "planner/instance/packing_impl.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace tern {
namespace {

constexpr double kNoStrategy = std::numeric_limits<double>::infinity();
// Prices of memory: all bytes of a device are worth this part of the step, in steps of 2^(1/3). 0 beside them.
constexpr int kLeastWorth = -15, kMostWorth = 12;

// What lies before a device's work on a path: nothing; the first micro-batch's way to it; and the last one's way back;
// or a micro-batch's whole way there and back, all stages passed.
enum class Before : uint8_t { nothing, way_there, way_there_and_back, round_trip };

// One path over one device at one price: Σ takes of its layers + what lies before ≤ step + room.
struct Load {
  Before before = Before::nothing;
  double room = 0;            // ps: the device's bytes, priced
  std::vector<double> takes;  // by form: ps of a layer at least, its bytes priced
};

// Times of an option along the paths, in the order of Packing::paths.
struct PathOf {
  Before before;
  bool sync;  // the gradient link's backlog is part of the tail
  bool begin, update;
};
constexpr PathOf kPaths[] = {{Before::nothing, false, true, true},
                             {Before::nothing, true, true, true},
                             {Before::way_there, false, false, true},
                             {Before::way_there, true, false, true},
                             {Before::way_there_and_back, false, false, false},
                             {Before::round_trip, false, false, false}};

class Packing {
 public:
  Packing(const Chain& chain, double step) : chain_(chain), step_(step) {
    find_forms();
    find_ways();
    int64_t transient = kNever;
    for (const int u : first_of_form_)
      for (const UnitState& s : chain.states[static_cast<size_t>(u)])
        for (const OptionCost& o : s.options) transient = std::min(transient, o.transient);
    transient_ = static_cast<double>(transient);
    loads_.resize(static_cast<size_t>(chain.devices));
  }

  /// False only if no assignment that fits takes `limit` ps or less.
  bool fits(int64_t limit) {
    const double step = static_cast<double>(limit);
    return chain_.stages == chain_.devices ? runs_fit(step) : all_classes_have_places(step);
  }

 private:
  static double slack(double step, const Load& l) { return 1 + 1e-10 * (std::abs(step) + std::abs(l.room)); }
  size_t form(int u) const { return static_cast<size_t>(form_[static_cast<size_t>(u)]); }

  void find_forms() {
    std::vector<int> number(static_cast<size_t>(chain_.layers), -1);
    for (int u = 0; u < chain_.layers; ++u) {
      int& n = number[static_cast<size_t>(chain_.form[static_cast<size_t>(u)])];
      if (n < 0) n = static_cast<int>(first_of_form_.size()), first_of_form_.push_back(u);
      form_.push_back(n);
    }
    const auto class_of = [&](int u) {
      return chain_.in->layer_class.empty() ? u : chain_.in->layer_class[static_cast<size_t>(u)];
    };
    for (const int u : first_of_form_) class_of_form_.push_back(class_of(u));
    classes_ = class_of_form_;
    std::sort(classes_.begin(), classes_.end());
    classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
  }

  // Of each form the least forward, and forward and backward; of all layers before each; of the links behind stages.
  void find_ways() {
    for (const int u : first_of_form_) {
      double forward = kNoStrategy, pass = kNoStrategy;
      for (const UnitState& s : chain_.states[static_cast<size_t>(u)])
        for (const OptionCost& o : s.options) {
          forward = std::min(forward, static_cast<double>(o.forward));
          pass = std::min(pass, static_cast<double>(o.forward + o.backward));
        }
      forward_.push_back(forward), pass_.push_back(pass);
    }
    there_.assign(1, 0), there_and_back_.assign(1, 0);
    for (int u = 0; u < chain_.layers; ++u) {
      there_.push_back(there_.back() + forward_[form(u)]);
      there_and_back_.push_back(there_and_back_.back() + pass_[form(u)]);
    }
    link_there_.assign(1, 0), link_there_and_back_.assign(1, 0);
    for (int s = 0; s + 1 < chain_.devices; ++s) {
      EdgeCost least{kNever, kNever};
      for (const auto& row : links_behind(*chain_.in, s))
        for (const EdgeCost& e : row)
          least = {std::min(least.forward, e.forward), std::min(least.backward, e.backward)};
      link_there_.push_back(link_there_.back() + static_cast<double>(least.forward));
      link_there_and_back_.push_back(link_there_and_back_.back() + static_cast<double>(least.forward + least.backward));
    }
  }

  bool has_path(const PathOf& p) const {
    if (p.before == Before::way_there_and_back) return !chain_.split && chain_.order_fixed;
    if (p.before == Before::round_trip) return !chain_.split && chain_.order_fixed && chain_.stages == chain_.devices;
    return true;
  }

  // ps of all micro-batches of one layer, along a path over its device.
  double time_of(const OptionCost& o, const PathOf& p, const StageRule& rule, double pass, double behind) const {
    const auto d = [](int64_t x) { return static_cast<double>(x); };
    const double c = d(chain_.micro);
    // The layer's own part of the round trip is in what lies before, at its least.
    if (p.before == Before::round_trip) return (c - d(rule.in_flight) + 1) * d(o.forward) + c * d(o.backward) - pass;
    double time = c * d(o.forward + o.backward + o.weight);
    if (p.sync) time += d(o.sync - o.last_gradient) - behind;
    if (p.begin) time += d(o.begin);
    if (p.update) time += d(o.update);
    return time;
  }

  // Before the next layer's first gradient operation may lie the resharding between the two.
  double resharding_behind(int u) const {
    if (chain_.split || u + 1 == chain_.layers) return 0;
    int64_t most = 0;
    for (const EdgeCost& e : chain_.in->within[static_cast<size_t>(u)]) most = std::max(most, e.backward);
    return static_cast<double>(most);
  }

  // `held`: micro-batches at the peak; 0: what the chain says.
  const std::vector<Load>& loads_of(int device, int64_t held) {
    auto [at, fresh] = loads_[static_cast<size_t>(device)].try_emplace(held);
    if (!fresh) return at->second;
    const double capacity = static_cast<double>(chain_.in->capacity[static_cast<size_t>(device)][0]);
    for (const PathOf& path : kPaths) {
      if (!has_path(path)) continue;
      for (int worth = kLeastWorth - 1; worth <= kMostWorth; ++worth) {
        const double mu = worth < kLeastWorth ? 0 : step_ * std::exp2(worth / 3.0) / std::max(1.0, capacity);
        Load load{.before = path.before, .room = mu * (capacity - transient_), .takes = {}};
        for (size_t f = 0; f < first_of_form_.size(); ++f) load.takes.push_back(least_of(device, f, path, mu, held));
        if (grows(load)) at->second.push_back(std::move(load));
      }
    }
    return at->second;
  }

  // Of one layer in any of the device's stages.
  double least_of(int device, size_t f, const PathOf& path, double mu, int64_t held) const {
    const int u = first_of_form_[f];
    const double behind = path.sync ? resharding_behind(u) : 0;
    const bool joint = chain_.stages > chain_.devices;
    double least = kNoStrategy;
    for (const StageRule& rule : chain_.rule) {
      if (rule.device != device) continue;
      const double times = static_cast<double>(held > 0 ? held
                                               : joint  ? rule.joint_held
                                                        : rule.held),
                   times_weight = static_cast<double>(joint ? rule.joint_held_weight : rule.held_weight);
      for (const UnitState& s : chain_.states[static_cast<size_t>(u)]) {
        if (!rule.takes(s)) continue;
        for (const OptionCost& o : s.options) {
          const double bytes = static_cast<double>(o.persistent[0]) + times * static_cast<double>(o.held[0]) +
                               times_weight * static_cast<double>(o.held_weight);
          least = std::min(least, time_of(o, path, rule, pass_[f], behind) + mu * bytes);
        }
      }
    }
    return least;
  }

  // Zero bubble, whose orders follow the times: a device that never holds more than k micro-batches begins forward
  // m + k after backward m, so round trips follow each other. The fewest that leave time for all, given that its layers
  // begin with `first`; 0: none do.
  int64_t fewest_held(int device, int first, double step) const {
    const size_t u = static_cast<size_t>(first), d = static_cast<size_t>(device);
    const double lead = there_[u] + link_there_[d], trip = there_and_back_.back() - there_and_back_[u] +
                                                           link_there_and_back_.back() - link_there_and_back_[d];
    const int64_t most = std::min(chain_.micro, chain_.rule[d].in_flight);
    for (int64_t k = 1; k <= most; ++k) {
      const double trips = static_cast<double>((chain_.micro - 1) / k + 1);
      if (lead + trips * trip <= step * (1 + 1e-10) + 1) return k;
    }
    return 0;
  }

  // Whether a layer adds to a device at least what it adds to the way to the next one. Then a run that begins later
  // may end as late, which runs_fit goes by.
  bool grows(const Load& l) const {
    for (size_t f = 0; f < l.takes.size(); ++f) {
      const double way = l.before == Before::way_there            ? forward_[f]
                         : l.before == Before::way_there_and_back ? pass_[f]
                                                                  : 0;
      if (l.takes[f] < way) return false;
    }
    return true;
  }

  // Least time before a device whose layers begin with `first` at the earliest.
  double before(const Load& l, int device, int first) const {
    const size_t d = static_cast<size_t>(device), u = static_cast<size_t>(first);
    if (l.before == Before::way_there) return there_[u] + link_there_[d];
    if (l.before == Before::way_there_and_back) return there_and_back_[u] + link_there_and_back_[d];
    if (l.before == Before::round_trip) return there_and_back_.back() + link_there_and_back_.back();
    return 0;
  }

  // One stage to a device: each takes as many layers as it can, behind those of the devices before it.
  bool runs_fit(double step) {
    std::vector<double> sum;
    int u = 0;
    for (int d = 0; d < chain_.devices; ++d) {
      int64_t held = 0;
      if (chain_.kind == BoundKind::zero_bubble && (held = fewest_held(d, u, step)) == 0) return false;
      const std::vector<Load>& loads = loads_of(d, held);
      const int first = u, end = chain_.layers - (chain_.devices - 1 - d);
      sum.assign(loads.size(), 0);
      const auto takes_next = [&] {
        for (size_t i = 0; i < loads.size(); ++i) {
          sum[i] += loads[i].takes[form(u)];
          if (sum[i] + before(loads[i], d, first) > step + loads[i].room + slack(step, loads[i])) return false;
        }
        return true;
      };
      while (u < end && takes_next()) ++u;
      if (u == first) return false;
    }
    return u == chain_.layers;
  }

  // Several stages to a device: whether the devices have places for all layers of a class, beside the chain's first
  // and last layer, whose devices are known. Device d comes after d layers at least.
  bool all_classes_have_places(double step) {
    for (const int kind : classes_) {
      double wanted = 0, places = 0;
      for (int u = 0; u < chain_.layers; ++u) wanted += class_of_form_[form(u)] == kind;
      for (int d = 0; d < chain_.devices && places < wanted; ++d) places += places_on(d, kind, wanted, step);
      if (places < wanted) return false;
    }
    return true;
  }

  double places_on(int device, int kind, double wanted, double step) {
    double places = wanted;
    for (const Load& l : loads_of(device, 0)) {
      double rest = step + l.room + slack(step, l) - before(l, device, device), takes = kNoStrategy;
      for (size_t f = 0; f < l.takes.size(); ++f)
        if (class_of_form_[f] == kind) takes = std::min(takes, l.takes[f]);
      for (const int end : {0, chain_.layers - 1}) {
        const int stage = end == 0 ? 0 : chain_.stages - 1;
        if (class_of_form_[form(end)] != kind && chain_.rule[static_cast<size_t>(stage)].device == device)
          rest -= l.takes[form(end)];
      }
      if (rest < 0) return 0;
      if (takes > 0) places = std::min(places, std::floor(rest / takes));
    }
    return places;
  }

  const Chain& chain_;
  double step_;  // ps: about the step's time
  std::vector<int> form_, first_of_form_, class_of_form_, classes_;
  std::vector<double> forward_, pass_;                       // by form
  std::vector<double> there_, there_and_back_;               // of the layers before each
  std::vector<double> link_there_, link_there_and_back_;     // of the links before each device
  double transient_ = 0;                                     // bytes of a layer at work, at least
  std::vector<std::map<int64_t, std::vector<Load>>> loads_;  // by device and micro-batches held; made when asked for
};

}  // namespace

int64_t packing_bound(const Chain& chain, int64_t known_bound, int64_t upper_bound) {
  if (chain.stages == 1 || known_bound >= upper_bound) return known_bound;
  int64_t low = std::max<int64_t>(0, known_bound), high = upper_bound - 1;
  Packing packing(chain, static_cast<double>(upper_bound < kNever ? upper_bound : std::max<int64_t>(1, low)));
  if (packing.fits(low)) return known_bound;
  if (!packing.fits(high)) return upper_bound;
  for (int64_t rise = std::max<int64_t>(1, low / 16); low + rise < high; rise *= 2) {
    if (packing.fits(low + rise))
      high = low + rise;
    else
      low += rise;
  }
  while (high - low > std::max<int64_t>(1, high / 1'000'000)) {
    const int64_t middle = low + (high - low) / 2;
    (packing.fits(middle) ? high : low) = middle;
  }
  return low + 1;  // nothing takes `low` or less
}

}  // namespace tern
