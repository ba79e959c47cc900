#include "planner/search.h"

#include <algorithm>

#include "planner/enumerate_impl.h"
#include "planner/price.h"

namespace tern {
namespace {

// Labels of one round before it gives up: about a gigabyte.
constexpr int64_t kMostLabels = 20'000'000;
constexpr int64_t kMostLabelsOfEnumeration = 2'000'000;

class Search {
 public:
  Search(const Instance& in, const SearchOptions& options)
      : in_(in), options_(options), chain_(make_chain(in, options.objective)), price_(in) {
    budget_.stop = options.stop;
    budget_.labels = kMostLabels;
    if (options.seconds < 1e9)
      budget_.deadline =
          std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                                                 std::chrono::duration<double>(std::max(0.0, options.seconds)));
  }

  SearchResult run() {
    if (quick_bound(in_) < options_.upper_bound || simple()) {
      first_plan();
      model();
      if (!simple() && !finished() && options_.simulations > 0) enumerate_rising();
    } else {
      bound_ = model_bound_ = quick_bound(in_);
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

  // Something that fits, or the proof that nothing does.
  void first_plan() {
    const MemoryNeed need = memory_need(chain_);
    if (need.missing > 0) {
      infeasible_ = true;
      need_ = need;
      bound_ = model_bound_ = kNever;
      return;
    }
    consider(need.assignment);
    if (chain_.exact_memory) return;
    // The rules are only necessary. The restricted family gives plans that surely fit.
    const Chain family = make_restricted_chain(in_);
    const MemoryNeed surely = memory_need(family);
    if (surely.missing > 0) return;
    consider(surely.assignment);
    const IntervalBounds bounds(family, kNever);
    Windows windows(family, bounds);
    rising(family, bounds, windows, kNever, [&](const Round& round) {
      for (const auto& pool : round.suffix[0][0])
        for (size_t i = 0; i < pool.size(); ++i)
          consider(
              recover(family, bounds, round, static_cast<int>(&pool - round.suffix[0][0].data()), static_cast<int>(i)));
    });
  }

  // Rounds of rising limit until one finds something. Returns what is proven: no value of the chain's bound is below.
  template <class Found>
  int64_t rising(const Chain& chain, const IntervalBounds& bounds, Windows& windows, int64_t most, const Found& found) {
    int64_t proven = windows.bound;
    for (int64_t slack = std::max<int64_t>(1, windows.bound / 4000); proven < most; slack *= 2) {
      const int64_t limit = std::min(most - 1, std::max(windows.bound + slack, proven));
      windows.restrict(chain, bounds, limit);
      const Round round =
          search_suffixes(chain, bounds, windows, limit, StageLabels::Keep::bound, options_.threads, budget_);
      ++counts_.rounds;
      counts_.labels += round.labels;
      counts_.suffixes += round.suffixes;
      if (round.outcome != Outcome::done) {
        interrupted_ |= round.outcome == Outcome::stopped;
        return proven;
      }
      int64_t least = kNever;
      for (const auto& pool : round.suffix[0][0])
        for (const SuffixLabel& l : pool) least = std::min(least, complete(chain, 0, l.value, {}));
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
    const int64_t limit = best_.found ? std::min(best_.value, kNever) : kNever;
    bounds_ = std::make_unique<IntervalBounds>(chain_, limit);
    windows_ = std::make_unique<Windows>(chain_, *bounds_);
    if (windows_->bound >= kNever) {
      // No stage within the incumbent's time: the incumbent is the best.
      bound_ = model_bound_ = limit;
      return;
    }
    bool found = false;
    model_bound_ = rising(chain_, *bounds_, *windows_, std::min(limit, options_.upper_bound), [&](const Round& round) {
      found = true;
      for (size_t k = 0; k < round.suffix[0][0].size(); ++k)
        for (size_t i = 0; i < round.suffix[0][0][k].size() && !budget_.stopped(); ++i)
          consider(recover(chain_, *bounds_, round, static_cast<int>(k), static_cast<int>(i)));
    });
    bound_ = model_bound_;
    model_ = found ? model_bound_ : kNever;
  }

  // Beyond the bound model: simulate every assignment whose bound is below the best makespan, in rounds of rising
  // limit.
  void enumerate_rising() {
    const auto keep = chain_.exact_memory && chain_.order_fixed ? StageLabels::Keep::times : StageLabels::Keep::all;
    Budget budget = budget_;
    budget.labels = kMostLabelsOfEnumeration;
    best_.simulated = 0;
    for (int64_t slack = std::max<int64_t>(1, bound_ / 4000); bound_ < ceiling(); slack *= 2) {
      const int64_t limit = std::min(ceiling() - 1, bound_ + slack);
      windows_->restrict(chain_, *bounds_, limit);
      const Round round = search_suffixes(chain_, *bounds_, *windows_, limit, keep, options_.threads, budget);
      ++counts_.rounds;
      counts_.labels += round.labels;
      counts_.suffixes += round.suffixes;
      Outcome outcome = round.outcome;
      if (outcome == Outcome::done)
        outcome = enumerate(chain_, *bounds_, round, keep, limit, options_.simulations, budget_, best_);
      interrupted_ |= outcome == Outcome::stopped;
      if (outcome != Outcome::done) break;
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
      r.bound_ps = r.model_bound_ps = r.model_ps = std::numeric_limits<int64_t>::max();
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
  std::unique_ptr<IntervalBounds> bounds_;
  std::unique_ptr<Windows> windows_;
  Incumbent best_;
  MemoryNeed need_;
  int64_t bound_ = 0, model_bound_ = 0, model_ = kNever;
  bool interrupted_ = false, infeasible_ = false;
  SearchCounts counts_;
};

}  // namespace

SearchResult search(const Instance& in, const SearchOptions& options) {
  check_instance(in);
  return Search(in, options).run();
}

// Means over the stages, memory left out: Σ + the mean of what the largest stage adds.
int64_t quick_bound(const Instance& in) {
  const bool split = splits_backward(in.schedule);
  int64_t forward = 0, backward = 0, weight = 0;
  for (const auto& row : in.cost) {
    int64_t f = kNever, b = kNever, w = kNever;
    for (const CostVector& c : row) {
      f = std::min(f, c.forward);
      b = std::min(b, c.backward + c.recompute + (split ? 0 : c.weight));
      w = std::min(w, split ? c.weight : 0);
    }
    forward += f, backward += b, weight += w;
  }
  const int64_t c = in.num_micro, p = in.num_stages;
  const auto up = [&](int64_t x) { return (x + p - 1) / p; };
  const int64_t round_trip = forward + backward;
  if (in.schedule == Schedule::gpipe) return round_trip + up((c - 1) * round_trip);
  if (in.schedule == Schedule::one_f_one_b)
    return std::max(round_trip + up((c - 1) * backward + (c - std::min(c, p)) * forward), up(c * round_trip));
  return std::max(round_trip, up(c * (round_trip + weight)));
}

}  // namespace tern
