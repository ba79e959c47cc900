// The outer loop: choices by rising bound; a bound of the tables, then the search, until the next bound is no better
// than the best plan.
#include "planner/outer/plan_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <queue>

#include "base/error.h"
#include "base/text.h"
#include "hardware/rates.h"
#include "plan/legality.h"
#include "planner/instance/cut_bound_impl.h"
#include "planner/instance/improve.h"
#include "planner/instance/kept_strategies_impl.h"
#include "planner/instance/packing_impl.h"
#include "planner/instance/price.h"
#include "planner/instance/relaxation_impl.h"
#include "planner/instance/search.h"
#include "planner/outer/answer_impl.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/choice_bounds_impl.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

constexpr int64_t kAllButNever = kNever - 1;  // nothing fits, but it is looked at again
constexpr int kTriedOfEach = 3;
constexpr int64_t kFewOperations = 100'000;  // of a pipeline

class OuterSearch {
 public:
  OuterSearch(const SpaceOfChoices& space, const PlanRequest& request, std::chrono::steady_clock::time_point start,
              OuterOutcome& out)
      : space_(space), request_(request), limits_(limits_of(request.effort)), out_(out), start_(start) {}

  void run() {
    for (const Candidate& c : space_.candidates) out_.bounds.push_back(c.bound);
    const size_t n = space_.candidates.size();
    searched_.assign(n, false), restricted_.assign(n, false);
    model_bound_.assign(n, kNever);
    if (request_.any_fit_within > 0) return find_any();
    if (space_.pinned.even) {
      pass([&](int index) { price_even(index); });
      return finish();
    }
    dive();
    close();
    if (rescue()) close();
    finish();
  }

  // Every pass with more effort, for what those before it left open; what each found is improved before the next.
  void close() {
    improve_best();
    pass([&](int index) { relax(index); });
    improve_best();
    for (const int64_t simulations : limits_.simulations) {
      if (simulations < 0) continue;
      pass([&](int index) { search_one(index, simulations); });
      improve_best();
    }
  }

 private:
  struct Entry {
    int64_t bound;
    int index;
    friend auto operator<=>(const Entry&, const Entry&) = default;
  };
  int64_t upper() const { return out_.found ? out_.makespan : kNever; }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }
  bool late() {
    if (elapsed() < request_.seconds && !(request_.stop && *request_.stop)) return false;
    return out_.interrupted = true;
  }

  // Closes choices by rising bound until the next one cannot win. What the passes before have searched comes again only
  // if its bound still could.
  template <class Visit>
  void pass(const Visit& visit) {
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    for (size_t i = 0; i < out_.bounds.size(); ++i)
      if (out_.bounds[i] < upper()) open.push({out_.bounds[i], static_cast<int>(i)});
    while (!open.empty() && !late()) {
      const Entry next = open.top();
      if (next.bound >= upper()) return;
      if (request_.progress) request_.progress(static_cast<int64_t>(open.size()), out_.found ? out_.makespan : 0);
      open.pop();
      visit(next.index);
    }
  }

  // A plan that fits, whatever its time: choices of least persistent bytes first.
  void find_any() {
    std::vector<int> order;
    const auto bytes = [&](int i) {
      const Candidate& c = space_.candidates[static_cast<size_t>(i)];
      return space_.tables[static_cast<size_t>(c.tables)].least_bytes[form_of(c)] / c.num_stages;
    };
    for (size_t i = 0; i < space_.candidates.size(); ++i)
      if (!any_order(space_, space_.candidates[i])) order.push_back(static_cast<int>(i));
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return std::pair(bytes(a), a) < std::pair(bytes(b), b); });
    int64_t left = request_.any_fit_within - space_.work;
    for (size_t i = 0; i < order.size() && !out_.found && !late(); ++i) {
      if (left <= 0) break;
      const UniformPlan plan = first_fit(space_, space_.candidates[static_cast<size_t>(order[i])], built_, left);
      if (plan.found) take(order[i], plan.assignment, plan.makespan, plan.makespan, plan.makespan);
    }
    out_.work = request_.any_fit_within - left;
    out_.interrupted |= !out_.found && left <= 0;
    finish();
  }

  // All assignments of an even choice.
  void price_even(int index) {
    const size_t at = static_cast<size_t>(index);
    int64_t& bound = out_.bounds[at];
    bound = std::max(bound, crowding_bound(space_, space_.candidates[at], 0));
    if (bound >= upper()) return;
    build_instance(space_, space_.candidates[at], built_);
    const EvenPlan even = even_plan(space_, space_.candidates[at], built_.instance);
    if (space_.late()) return;
    ++out_.searches;
    searched_[at] = true;
    const UniformPlan& p = even.plan;
    bound = model_bound_[at] = p.found ? p.makespan : kNever;
    if (p.found) return take(index, p.assignment, p.makespan, p.makespan, p.makespan);
    if (even.missing_bytes == kNever) return void(++out_.not_run);
    if (out_.found || (out_.no_fit_index >= 0 && even.missing_bytes >= out_.no_fit.missing_bytes)) return;
    out_.no_fit_index = index;
    out_.no_fit.missing_bytes = even.missing_bytes, out_.no_fit.tier = even.tier, out_.no_fit.rank = even.rank;
  }

  // First plans, so that the first searches have something to beat: for each schedule and tensor degree the choices of
  // least bound, one strategy everywhere.
  void dive() {
    std::map<std::pair<int, int64_t>, int> tried;
    // Long pipelines last: where time is short one of them could take all of it.
    std::vector<int> order = by_rising_bound();
    std::stable_partition(order.begin(), order.end(), [&](int i) {
      return operations_of(choice_of(space_, space_.candidates[static_cast<size_t>(i)])) <= kFewOperations;
    });
    for (const int i : order) {
      const Candidate& c = space_.candidates[static_cast<size_t>(i)];
      const Mesh& mesh = space_.tables[static_cast<size_t>(c.tables)].mesh;
      if (out_.bounds[static_cast<size_t>(i)] >= upper() || any_order(space_, c)) continue;
      if (++tried[{c.num_stages == 1 ? -1 : c.schedule, c.order < 0 ? mesh.tensor : -mesh.tensor}] > kTriedOfEach)
        continue;
      if (late()) return;
      build_instance(space_, c, built_);
      const UniformPlan plan = uniform_plan(space_, c, built_);
      if (plan.found) take(i, plan.assignment, plan.makespan, plan.makespan, plan.makespan);
    }
  }

  // Nothing found, and choices left that may fit for all the search knows: by rising bound one strategy
  // everywhere, then every layer as small as it can be, until one does.
  bool rescue() {
    for (const int i : by_rising_bound()) {
      const Candidate& c = space_.candidates[static_cast<size_t>(i)];
      if (out_.found || out_.bounds[static_cast<size_t>(i)] == kNever || late()) break;
      if (any_order(space_, c)) continue;
      build_instance(space_, c, built_);
      UniformPlan plan = uniform_plan(space_, c, built_);
      if (!plan.found) plan = smallest_plan();
      if (!plan.found) continue;
      take(i, plan.assignment, plan.makespan, plan.makespan, plan.makespan);
      return true;
    }
    return false;
  }

  // Of built_: where stages are cut is searched, each layer has the strategy of least bytes.
  UniformPlan smallest_plan() {
    Kept kept;
    const int64_t in_flight = std::min(built_.instance.num_micro, built_.instance.num_stages);
    const auto bytes = [&](const CostVector& v) { return v.persistent[0] + in_flight * v.held[0] + v.transient; };
    for (const auto& row : built_.instance.cost) {
      const auto least = std::min_element(
          row.begin(), row.end(), [&](const CostVector& a, const CostVector& b) { return bytes(a) < bytes(b); });
      kept.strategy.push_back({static_cast<int>(least - row.begin())});
    }
    kept.fill(built_.instance);
    SearchOptions options{.simulations = 100, .labels = 200'000, .threads = request_.threads, .stop = request_.stop};
    if (request_.seconds < std::numeric_limits<double>::infinity()) options.seconds = request_.seconds - elapsed();
    const SearchResult r = search(kept.instance, options);
    if (!r.found) return {};
    return {true, kept.whole(r.assignment), r.makespan_ps};
  }

  std::vector<int> by_rising_bound() const {
    std::vector<int> order(space_.candidates.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
    const auto by_bound = [&](int a, int b) {
      return std::pair(out_.bounds[static_cast<size_t>(a)], a) < std::pair(out_.bounds[static_cast<size_t>(b)], b);
    };
    std::sort(order.begin(), order.end(), by_bound);
    return order;
  }

  // The bounds of whole layers and of the relaxation; where they leave room, one strategy everywhere.
  void relax(int index) {
    const size_t at = static_cast<size_t>(index);
    const Candidate& c = space_.candidates[at];
    int64_t& bound = out_.bounds[at];
    bound = std::max(bound, crowding_bound(space_, c, 0));
    if (bound >= upper()) return;
    build_instance(space_, c, built_);
    const Chain chain = make_chain(built_.instance, Objective::simulated);
    if (out_.found) bound = packing_bound(chain, bound, upper());
    if (bound >= upper()) return;
    const CutBound cut = cut_bound(chain, upper(), limits_.relaxation_rounds);
    // Without a plan the search has still to say what is missing.
    bound = std::max(bound, out_.found ? cut.bound : std::min(cut.bound, kAllButNever));
    if (bound >= upper()) return;
    if (cut.mu > 0) bound = std::max(bound, crowding_bound(space_, c, cut.mu * c.num_stages));
    if (bound >= upper()) return;
    const UniformPlan plan = repaired_plan(space_, c, built_, upper());
    if (plan.found) take(index, plan.assignment, plan.makespan, plan.makespan, plan.makespan);
  }

  // What is left open is compared with the best plan, so a better one closes more.
  void improve_best() {
    if (!out_.found || out_.makespan == improved_ || late()) return;
    build_instance(space_, space_.candidates[static_cast<size_t>(out_.best)], built_);
    const Improved better = improve(
        built_.instance, out_.assignment,
        {.seconds = (request_.seconds - elapsed()) / 4, .operations = limits_.operations, .stop = request_.stop});
    improved_ = better.makespan;
    if (better.makespan < out_.makespan)
      take(out_.best, better.assignment, better.makespan, std::min(out_.model, better.makespan),
           std::min(out_.model_bound, better.makespan));
  }

  void take(int index, const Assignment& a, int64_t makespan, int64_t model, int64_t model_bound) {
    out_.plans.push_back({index, makespan});
    if (makespan >= upper()) return;
    out_.found = true;
    out_.best = index, out_.assignment = a, out_.makespan = makespan, out_.model = model,
    out_.model_bound = model_bound;
  }

  // The search, over the strategies with which the relaxation leaves room for a better plan.
  void search_one(int index, int64_t simulations) {
    const size_t at = static_cast<size_t>(index);
    if (any_order(space_, space_.candidates[at])) return;
    int64_t& bound = out_.bounds[at];
    build_instance(space_, space_.candidates[at], built_);
    SearchOptions options{.upper_bound = upper(),
                          .simulations = simulations,
                          .labels = limits_.labels,
                          .bytes = limits_.label_bytes,
                          .threads = request_.threads,
                          .stop = request_.stop};
    if (request_.seconds < std::numeric_limits<double>::infinity()) options.seconds = request_.seconds - elapsed();
    Kept kept;
    if (out_.found) {
      kept = strategies_below(built_.instance, upper(), limits_.relaxation_rounds);
      bound = std::max(bound, kept.bound);
      if (bound >= upper()) return;
    }
    const SearchResult r = search(out_.found ? kept.instance : built_.instance, options);
    ++out_.searches;
    out_.simulated += r.counts.simulated;
    // What an earlier pass has finished stays finished.
    const int64_t model_bound = r.interrupted ? std::max(r.model_bound_ps, bound) : kNever;
    model_bound_[at] = searched_[at] ? std::max(model_bound_[at], model_bound) : model_bound;
    searched_[at] = true;
    if (r.infeasible && !out_.found && (out_.no_fit_index < 0 || r.missing_bytes < out_.no_fit.missing_bytes)) {
      out_.no_fit_index = index;
      out_.no_fit.missing_bytes = r.missing_bytes, out_.no_fit.tier = r.tier, out_.no_fit.rank = r.device;
    }
    restricted_[at] = r.restricted;
    const bool was_filtered = out_.found;
    const int64_t limit = options.upper_bound;
    bound = std::max(bound, r.infeasible && !was_filtered ? kNever : std::min(r.bound_ps, limit));
    if (r.found)
      take(index, was_filtered ? kept.whole(r.assignment) : r.assignment, r.makespan_ps, r.model_ps, r.model_bound_ps);
  }

  void finish() {
    out_.bound = upper();
    out_.counts.legal = space_.no_room;
    out_.counts.by_bound = space_.no_room;
    for (size_t i = 0; i < out_.bounds.size(); ++i) {
      if (out_.found && out_.bounds[i] == kAllButNever) out_.bounds[i] = kNever;
      out_.bound = std::min(out_.bound, out_.bounds[i]);
      if (any_order(space_, space_.candidates[i])) {
        if (out_.bounds[i] >= upper()) continue;
        ++out_.orders_open;
        out_.model_bound = std::min(out_.model_bound, out_.bounds[i]);
        continue;
      }
      ++out_.counts.legal;
      if (out_.bounds[i] >= upper()) {
        ++(searched_[i] ? out_.counts.by_search : out_.counts.by_bound);
        continue;
      }
      ++out_.counts.open;
      out_.restricted_open += restricted_[i];
      out_.model_bound = std::min(out_.model_bound, searched_[i] ? model_bound_[i] : out_.bounds[i]);
    }
    for (const Candidate& c : space_.bounded) {
      const int64_t bound = c.bound < upper() ? std::max(c.bound, crowding_bound(space_, c, 0)) : c.bound;
      if (!out_.found || bound < upper()) ++out_.bounded_open;
      out_.bound = std::min(out_.bound, bound), out_.model_bound = std::min(out_.model_bound, bound);
    }
    if (space_.cut) {
      out_.bound = std::min(out_.bound, space_.work_bound);
      out_.model_bound = std::min(out_.model_bound, space_.work_bound);
      out_.interrupted = true;
    }
    out_.seconds = elapsed();
  }

  const SpaceOfChoices& space_;
  const PlanRequest& request_;
  const EffortLimits& limits_;
  OuterOutcome& out_;
  int64_t improved_ = -1;  // the makespan of the last plan that was improved
  const std::chrono::steady_clock::time_point start_;
  BuiltInstance built_;
  std::vector<bool> searched_, restricted_;
  std::vector<int64_t> model_bound_;  // what an interrupted search leaves open of its bound model
};

// Where a plan fits first: micro-batches as small as they may be; of schedules the one of least memory without chunks,
// and of those with.
SearchSpace of_least_memory(SearchSpace s) {
  const PinnedAxes& p = s.pinned;
  if (!p.micro_batch && !p.micro_batches) s.max_micro_batch = 1;
  if (!p.ulysses) s.ulysses = false;
  const auto leanest = [](PipelineSchedule x) { return traits_of(x).least_memory; };
  const bool without_chunks = std::any_of(s.schedules.begin(), s.schedules.end(), [&](PipelineSchedule x) {
    return leanest(x) && traits_of(x).chunks == ChunkRule::one;
  });
  if (without_chunks && !p.schedule && !p.chunks)
    std::erase_if(s.schedules, [&](PipelineSchedule x) { return !leanest(x); });
  return s;
}

// Every legal choice may take longer than is counted. What the devices do at their peak says whether they are to blame.
Error too_long(const SpaceOfChoices& space, const Cluster& cluster, const PlanRequest& request) {
  const double days = static_cast<double>(space.work_bound) / 86400e12, most = kMostStepPs / 86400e12;
  std::vector<std::string> peaks;
  for (const DeviceType& d : cluster.devices)
    peaks.push_back(fmt::format("peak of '{}' for {}: {:.3g} FLOP/s", d.name, name_of(request.job.dtype),
                                peak_flops(d, request.job.dtype)));
  return Error(
      ErrorKind::usage,
      "plan: on '{}' a step of --batch {} --seq {} may take more than {:.0f} days, which is not counted; the "
      "products alone take {:.2g} days at least at the peaks. Give a smaller --batch, or mend a rate, bandwidth or "
      "latency in {} ({})",
      cluster.name, request.job.batch, request.job.seq, most, days, cluster.path, join(peaks, "; "));
}

}  // namespace

PlanAnswer plan_model(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  const SearchSpace& asked = request.space;
  if (asked.schedules.empty() || asked.zero.empty() || asked.recompute.empty() || asked.states.empty() ||
      asked.activations.empty())
    throw Error(ErrorKind::usage, "plan: the space is empty: schedules, zero, recompute and homes need one value each");
  PlanRequest lean = request;
  if (request.any_fit_within > 0) lean.space = of_least_memory(lean.space);
  const SpaceOfChoices space = enumerate_choices(spec, cluster, lean);
  if (asked.pinned.any() && space.candidates.empty() && !space.no_room && !space.cut && !space.too_long)
    if (const std::vector<std::string> broken = broken_pins(space, asked); !broken.empty())
      throw Error(ErrorKind::usage, "plan: --fix {}: not on '{}' with --batch {} --seq {}: {}", to_string(asked.pinned),
                  cluster.name, request.job.batch, request.job.seq, join(broken, "; "));
  if (space.candidates.empty() && !space.no_room && space.too_long && !space.cut)
    throw too_long(space, cluster, request);
  if (space.candidates.empty() && !space.no_room && !space.cut)
    throw Error(ErrorKind::usage, "plan: no mesh is legal for --batch {} --seq {} on '{}': {}", request.job.batch,
                request.job.seq, cluster.name, space.rules.empty() ? "the space is empty" : join(space.rules, "; "));
  OuterOutcome outcome;
  OuterSearch(space, request, start, outcome).run();
  if (!outcome.found && outcome.not_run > 0 && outcome.not_run == std::ssize(space.candidates))
    throw Error(ErrorKind::usage, "plan: --fix {}: of what is asked there is {}", to_string(asked.pinned),
                limits_in_words(*asked.pinned.framework));
  PlanAnswer answer;
  answer.found = outcome.found;
  answer.searches = outcome.searches, answer.simulated = outcome.simulated;
  answer.work = outcome.work;
  if (answer.found && request.any_fit_within > 0) {
    answer.plan.choice = choice_of(space, space.candidates[static_cast<size_t>(outcome.best)]);
  } else if (answer.found) {
    const auto late = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >= request.seconds ||
             (request.stop && *request.stop);
    };
    if (!asked.pinned.any()) outcome.pool = best_pool(space, cluster, request, outcome.makespan, late);
    make_plan(space, cluster, request, outcome, answer);
  } else if (request.any_fit_within == 0) {
    const bool closed = outcome.counts.open + outcome.orders_open + outcome.bounded_open == 0;
    if (!outcome.interrupted && closed) answer.no_fit = make_no_fit(space, outcome);
  }
  answer.interrupted = outcome.interrupted;
  answer.choices = outcome.counts.legal + static_cast<int64_t>(space.bounded.size());
  answer.open = outcome.counts.open + outcome.orders_open + outcome.bounded_open;
  answer.proven_infeasible = !answer.found && !outcome.interrupted && answer.open == 0;
  answer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return answer;
}

}  // namespace tern
