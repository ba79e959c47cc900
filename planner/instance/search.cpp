#include "planner/instance/search.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/enumerate_impl.h"
#include "planner/instance/kept_strategies_impl.h"
#include "planner/instance/memory_need_impl.h"
#include "planner/instance/price.h"
#include "planner/instance/relaxation_impl.h"

namespace tern {
namespace {

constexpr int64_t kMostLabelsOfEnumeration = 100'000;
constexpr size_t kMostConsidered = 64;
constexpr size_t kMostCaps = 128;           // of transient bytes
constexpr int kRelaxationRounds = 40;       // of the relaxation
constexpr int64_t kMostSteps = 50'000'000;  // operations simulated by the enumeration

// A chain and what is known of it. The tables leave out stages that alone take longer than `reach`.
struct Space {
  const Chain& chain;
  int threads;
  const Budget& budget;
  std::unique_ptr<IntervalBounds> bounds;
  std::unique_ptr<Windows> windows;
  int64_t reach = 0;
  int64_t bound = 0;  // of the chain: nothing is below

  void build(int64_t limit) {
    reach = limit;
    bounds = std::make_unique<IntervalBounds>(chain, limit);
    windows = std::make_unique<Windows>(chain, *bounds);
    bound = std::max(bound, std::min(windows->bound, reach + 1));
  }
  /// False: nothing is below `most`.
  bool open(int64_t guess, int64_t most) {
    for (build(std::min(most, guess)); windows->bound > reach / 5 * 4; build(std::min(most, 2 * reach)))
      if (reach >= most) break;
    tighten();
    return bound < most;
  }
  void tighten() {
    for (int step = 0; step < 20 && windows->bound < reach && !budget.stopped(); ++step) {
      const int64_t limit = std::min(reach, windows->bound + (windows->bound / 128 << std::min(step, 6)) + 1);
      windows->restrict(chain, *bounds, limit);
      bounds->tighten(*windows, limit, threads, budget);
      *windows = Windows(chain, *bounds);
      bound = std::max(bound, std::min(windows->bound, reach + 1));
      if (windows->bound <= limit) return;
    }
  }
  Round round(int64_t limit, StageLabels::Keep keep, const Budget& labels) {
    if (limit > reach) {
      build(std::max(limit, std::min(kNever, 2 * reach)));
      tighten();
    }
    windows->restrict(chain, *bounds, limit);
    return search_suffixes(chain, *bounds, *windows, limit, keep, threads, labels);
  }
};

class Search {
 public:
  Search(const Instance& in, const SearchOptions& options)
      : in_(in), options_(options), chain_(make_chain(in, options.objective)), price_(in) {
    budget_.stop = options.stop;
    budget_.labels = options.labels, budget_.bytes = options.bytes;
    if (options.seconds < 1e9)
      budget_.deadline =
          std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                 std::chrono::duration<double>(std::max(0.0, options.seconds)));
  }

  SearchResult run() {
    const int64_t cheap = simple() ? 0 : mean_bound(chain_);
    if (cheap < options_.upper_bound) {
      space_.bound = cheap;
      // With something to beat, the bound often ends the search before a first plan is needed.
      const bool bound_first = options_.upper_bound < kNever;
      if (bound_first) model();
      if (!bound_first || (!finished() && options_.simulations > 0)) first_plan();
      if (!bound_first) model();
      if (!simple() && !finished() && options_.simulations > 0) enumerate_rising();
    } else {
      bound_ = model_bound_ = cheap;
    }
    return result();
  }

 private:
  bool simple() const { return options_.objective == Objective::simple; }
  bool finished() const { return interrupted_ || infeasible_ || bound_ >= ceiling(); }
  /// Only values below are wanted.
  int64_t ceiling() const { return std::min(best_.value, options_.upper_bound); }

  void consider(const Assignment& a) {
    const Priced p = price_(a);
    if (!p.fits()) return;
    const int64_t value = simple() ? simple_objective(p.shape, p.times) : p.makespan;
    ++counts_.simulated;
    if (value >= best_.value) return;
    best_.found = true;
    best_.assignment = a;
    best_.value = value;
    best_.makespan = p.makespan;
  }

  // An even split with one strategy everywhere, the fastest such that fits.
  void uniform_plan() {
    size_t strategies = in_.cost[0].size();
    for (const auto& row : in_.cost) strategies = std::min(strategies, row.size());
    std::vector<std::pair<int64_t, int>> order;
    for (size_t k = 0; k < strategies; ++k) {
      int64_t time = 0;
      for (const auto& row : in_.cost) time += row[k].forward + row[k].backward + row[k].weight + row[k].recompute;
      order.emplace_back(time, static_cast<int>(k));
    }
    std::sort(order.begin(), order.end());
    Assignment a;
    for (int u = 0; u < chain_.layers; ++u)
      a.stage.push_back(static_cast<int>(int64_t{u} * chain_.stages / chain_.layers));
    for (size_t i = 0; i < order.size() && !best_.found && !budget_.stopped(); ++i) {
      a.strategy.assign(chain_.layers, order[i].second);
      consider(a);
    }
  }

  // Something that fits, or the proof that nothing does.
  void first_plan() {
    uniform_plan();
    const bool tiers = chain_.has_tier[1] || chain_.has_tier[2];
    MemoryNeed need;
    // With the device tier alone the proof is cheap, and its plan may be the better one.
    if (!best_.found || !tiers) need = memory_need(chain_, budget_);
    if (need.missing > 0) {
      infeasible_ = true;
      need_ = need;
      bound_ = model_bound_ = kNever;
      return;
    }
    if (!need.assignment.stage.empty()) consider(need.assignment);
    if (chain_.exact_memory) return;
    // The rules are only necessary. The restricted family gives plans that surely fit.
    const Chain family = make_restricted_chain(in_);
    if (!tiers || !best_.found) {
      const MemoryNeed surely = memory_need(family, budget_);
      if (surely.missing > 0 || surely.assignment.stage.empty()) return;
      consider(surely.assignment);
    }
    Budget few = budget_;
    few.labels = std::min(options_.labels, kMostLabelsOfEnumeration);
    Space space{.chain = family, .threads = options_.threads, .budget = few};
    if (!space.open(quick_bound(in_) * 2, kNever)) return;
    rising(space, kNever, [&](const Round& round) { consider_all(space, round); });
    interrupted_ = budget_.stopped();  // the family is a source of plans: its own end proves nothing
  }

  // What a round left of the whole pipeline, least bound first; few enough that simulating them takes no time.
  void consider_all(const Space& space, const Round& round) {
    const auto& first = round.suffix[0][0];
    std::vector<std::tuple<int64_t, int, int>> order;
    for (size_t k = 0; k < first.size(); ++k)
      for (size_t i = 0; i < first[k].size(); ++i)
        order.emplace_back(complete(space.chain, 0, first[k][i].value, {}), static_cast<int>(k), static_cast<int>(i));
    std::sort(order.begin(), order.end());
    if (order.size() > kMostConsidered) order.resize(kMostConsidered);
    for (const auto& [value, k, i] : order) {
      if (budget_.stopped()) return;
      consider(recover(space.chain, *space.bounds, round, k, i));
    }
  }

  Round count(Round round) {
    ++counts_.rounds;
    counts_.labels += round.labels;
    counts_.suffixes += round.suffixes;
    interrupted_ |= round.outcome == SearchEnd::stopped;
    return round;
  }

  // Rounds of rising limit until one finds something. Returns what is proven: no value of the chain's bound is below.
  template <class Found>
  int64_t rising(Space& space, int64_t most, const Found& found) {
    int64_t proven = space.bound;
    for (int64_t slack = std::max<int64_t>(2, proven / 8000); proven < most; slack += slack / 2) {
      const int64_t limit = std::min(most - 1, std::max(space.bound + slack, proven));
      const Round round = count(space.round(limit, StageLabels::Keep::bound, space.budget));
      last_labels_ = round.labels;
      if (round.outcome != SearchEnd::done) {
        interrupted_ = true;
        return proven;
      }
      int64_t least = kNever;
      for (const auto& pool : round.suffix[0][0])
        for (const SuffixLabel& l : pool) least = std::min(least, complete(space.chain, 0, l.value, {}));
      if (least < kNever) {
        found(round);
        return least;
      }
      proven = limit + 1;
    }
    return proven;
  }

  void model() {
    if (infeasible_) return;
    const int64_t most = ceiling();
    if (space_.bound >= most) {
      bound_ = model_bound_ = most;
      return;
    }
    if (!space_.open(quick_bound(in_) * 3 / 2 + 1, most)) {
      bound_ = model_bound_ = std::min(most, space_.bound);
      return;
    }
    bool found = false;
    model_bound_ = rising(space_, most, [&](const Round& round) {
      found = true;
      consider_all(space_, round);
    });
    bound_ = model_bound_;
    model_ = found ? model_bound_ : kNever;
  }

  // Beyond the bound model: simulate every assignment whose bound is below the best makespan, in rounds of rising
  // limit.
  void enumerate_rising() {
    const auto keep = chain_.exact_memory && chain_.order_fixed ? StageLabels::Keep::times : StageLabels::Keep::all;
    Budget budget = budget_;
    budget.labels = std::min(options_.labels, kMostLabelsOfEnumeration);
    best_.simulated = 0;
    const int64_t steps = int64_t{3} * chain_.stages * in_.num_micro;
    const int64_t simulations = std::min(options_.simulations, std::max<int64_t>(100, kMostSteps / steps));
    // Rounds that keep all that the simulator sees have more labels still: none would end within its limit.
    if (last_labels_ > 4 * kMostLabelsOfEnumeration) return;
    for (int64_t slack = std::max<int64_t>(1, bound_ / 4000); bound_ < ceiling(); slack *= 2) {
      const int64_t limit = std::min(ceiling() - 1, bound_ + slack);
      const Round round = count(space_.round(limit, keep, budget));
      SearchEnd outcome = round.outcome;
      if (outcome == SearchEnd::done)
        outcome = enumerate(chain_, *space_.bounds, round, keep, limit, simulations, budget_, best_);
      interrupted_ |= outcome == SearchEnd::stopped;
      if (outcome != SearchEnd::done) break;
      bound_ = std::min(limit + 1, ceiling());
    }
    counts_.simulated += best_.simulated;
  }

  SearchResult result() {
    SearchResult r;
    r.counts = counts_;
    r.interrupted = interrupted_;
    if (infeasible_) {
      r.infeasible = true;
      r.device = chain_.rule[need_.stage].device;
      r.tier = need_.tier;
      r.missing_bytes = need_.missing;
      r.bound_ps = r.model_bound_ps = r.model_ps = kNever;
      return r;
    }
    r.found = best_.found && best_.value < options_.upper_bound;
    if (best_.found) {
      r.assignment = best_.assignment;
      r.value_ps = best_.value;
      r.makespan_ps = best_.makespan;
    }
    r.bound_ps = best_.found ? std::min(bound_, best_.value) : bound_;
    r.model_bound_ps = model_bound_;
    r.model_ps = model_ < kNever ? model_ : std::max(model_bound_, best_.found ? best_.value : model_bound_);
    r.restricted = !chain_.exact_memory && best_.found && r.bound_ps < r.value_ps;
    return r;
  }

  const Instance& in_;
  const SearchOptions& options_;
  Chain chain_;
  Pricer price_;
  Budget budget_;
  Space space_{.chain = chain_, .threads = options_.threads, .budget = budget_};
  Incumbent best_;
  MemoryNeed need_;
  int64_t bound_ = 0, model_bound_ = 0, model_ = kNever;
  bool interrupted_ = false, infeasible_ = false;
  SearchCounts counts_;
  int64_t last_labels_ = 0;  // of the last round of the bound search
};

// One stage: its transient bytes are the largest of its layers'. A search for each value they may have knows them
// beforehand, so that they are no number of the labels and the bounds price them.
std::vector<int64_t> transient_caps(const Instance& in) {
  std::vector<int64_t> caps;
  int64_t needed = 0;
  for (const auto& row : in.cost) {
    int64_t least = kNever;
    for (const CostVector& c : row) caps.push_back(c.transient), least = std::min(least, c.transient);
    needed = std::max(needed, least);
  }
  std::sort(caps.begin(), caps.end());
  caps.erase(std::unique(caps.begin(), caps.end()), caps.end());
  std::erase_if(caps, [&](int64_t cap) { return cap < needed; });
  return caps;
}

Kept under_cap(const Instance& in, int64_t cap) {
  Kept kept;
  for (const auto& row : in.cost) {
    kept.strategy.emplace_back();
    for (size_t k = 0; k < row.size(); ++k)
      if (row[k].transient <= cap) kept.strategy.back().push_back(static_cast<int>(k));
  }
  kept.fill(in);
  for (auto& row : kept.instance.cost)
    for (CostVector& c : row) c.transient = 0;
  for (TierBytes& c : kept.instance.capacity) c[0] -= cap;
  return kept;
}

SearchResult search_caps(const Instance& in, const std::vector<int64_t>& caps, const SearchOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::pair<int64_t, int64_t>> order;  // bound, cap
  for (const int64_t cap : caps) order.emplace_back(quick_bound(under_cap(in, cap).instance), cap);
  std::sort(order.begin(), order.end());
  SearchResult out;
  out.infeasible = true, out.missing_bytes = kNever;
  out.value_ps = out.bound_ps = out.model_ps = out.model_bound_ps = kNever;
  for (const auto& [bound, cap] : order) {
    SearchOptions left = options;
    left.upper_bound = std::min(options.upper_bound, out.value_ps);
    left.labels = std::max<int64_t>(1000, options.labels - out.counts.labels);
    left.simulations = std::max<int64_t>(0, options.simulations - out.counts.simulated);
    left.seconds -= std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (bound < kNever && bound >= left.upper_bound) {
      out.infeasible = false;
      out.bound_ps = std::min(out.bound_ps, bound), out.model_bound_ps = std::min(out.model_bound_ps, bound);
      continue;
    }
    const Kept whole = under_cap(in, cap);
    const bool filter = left.upper_bound < kNever;
    Kept kept;
    if (filter) kept = strategies_below(whole.instance, left.upper_bound, kRelaxationRounds);
    if (filter && kept.bound >= left.upper_bound) {
      out.infeasible = false;
      out.bound_ps = std::min(out.bound_ps, kept.bound), out.model_bound_ps = std::min(out.model_bound_ps, kept.bound);
      continue;
    }
    const Instance& part = filter ? kept.instance : whole.instance;
    const SearchResult r = Search(part, left).run();
    out.counts.labels += r.counts.labels, out.counts.suffixes += r.counts.suffixes;
    out.counts.simulated += r.counts.simulated, out.counts.rounds += r.counts.rounds;
    out.interrupted |= r.interrupted;
    if (r.infeasible && !filter) {
      if (r.missing_bytes < out.missing_bytes)
        out.missing_bytes = r.missing_bytes, out.device = r.device, out.tier = r.tier;
      continue;
    }
    out.infeasible = false;
    out.bound_ps = std::min(out.bound_ps, r.bound_ps);
    out.model_ps = std::min(out.model_ps, r.model_ps);
    out.model_bound_ps = std::min(out.model_bound_ps, r.model_bound_ps);
    if (!r.found) continue;
    out.found = true;
    out.assignment = whole.whole(filter ? kept.whole(r.assignment) : r.assignment);
    out.value_ps = r.value_ps, out.makespan_ps = r.makespan_ps;
  }
  if (out.infeasible) return out;
  out.missing_bytes = 0;
  if (!out.found) out.value_ps = 0;
  if (out.found) out.bound_ps = std::min(out.bound_ps, out.value_ps);
  out.model_bound_ps = std::min(out.model_bound_ps, out.model_ps);
  if (out.model_ps == kNever) out.model_ps = out.model_bound_ps;
  return out;
}

}  // namespace

SearchResult search(const Instance& in, const SearchOptions& options) {
  check_instance(in);
  if (in.num_stages * in.chunks_per_stage == 1 && options.objective == Objective::simulated) {
    const std::vector<int64_t> caps = transient_caps(in);
    if (caps.size() > 1 && caps.size() <= kMostCaps) return search_caps(in, caps, options);
  }
  return Search(in, options).run();
}

int64_t quick_bound(const Instance& in) { return mean_bound(make_chain(in, Objective::simulated)); }

}  // namespace tern
