#include "planner/words/refusal.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "planner/words/plan_text.h"
#include "planner/words/smallest_changes.h"
#include "spec/presets.h"

namespace tern {
namespace {

// What would fit is looked for by counted work, so that the answer is the same on every machine; under a second for
// 405B on two cores.
constexpr int64_t kMostWork = 40'000'000, kMostWorkOfOne = kMostWork / 4;
constexpr size_t kMostAdvice = 3;
constexpr double kChanging = 20;  // seconds that the smallest change is looked for
constexpr size_t kMostChanges = 4;

class Advisor {
 public:
  explicit Advisor(const PlanQuestion& question)
      : spec_(question.spec), cluster_(question.cluster), request_(question.request), wider_(question.wider) {}

  // The least intrusive first.
  std::vector<std::string> run() {
    for (const WiderSpace& w : wider_) {
      PlanRequest r = request_;
      r.space = w.space;
      if (attempt(w.words, spec_, cluster_, r)) break;
    }
    offload();
    for (PlanRequest r = request_; r.job.seq >= 256;) {
      r.job.seq /= 2;
      if (attempt(fmt::format("--seq {}", r.job.seq), spec_, cluster_, r)) break;
    }
    if (!request_.space.pinned.framework)  // what is emitted has none
      attempt("--adapters 16 (train low-rank products alone)", with_adapters(spec_, 16), cluster_, request_);
    const bool here = !out_.empty();
    more_nodes();
    if (!here) smaller_model();
    return out_;
  }

  // Bytes more on each device with which a plan was found, within a 32nd of the least, and its choice; 0: none was.
  std::pair<int64_t, std::string> more_memory() {
    int64_t most = 0;
    for (const DeviceType& d : cluster_.devices) most = std::max(most, d.memory_bytes);
    left_ = kMostWork;
    const auto fits = [&](int64_t more) {
      Cluster larger = cluster_;
      for (DeviceType& d : larger.devices) d.memory_bytes += more;
      return fit(spec_, larger, request_);
    };
    const int64_t more = least(0, std::max<int64_t>(most / 64, 1), 128 * most, 32, fits);
    return {more, more > 0 ? found_ : ""};
  }

 private:
  bool fit(const ModelSpec& model, const Cluster& machines, PlanRequest r) {
    if (left_ <= 0) return false;
    r.any_fit_within = std::min(left_, kMostWorkOfOne), r.progress = {};
    r.seconds = std::numeric_limits<double>::infinity();
    try {
      const PlanAnswer a = plan_model(model, machines, r);
      left_ -= a.work;
      if (a.found) found_ = to_string(a.plan.choice);
      return a.found;
    } catch (const Error& e) {  // no legal mesh under it: how much work that took is not known
      if (e.kind() != ErrorKind::usage) throw;
      left_ -= kMostWorkOfOne / 16;
      return false;
    }
  }
  // A number that fits, above `low`, which does not: doubled from `high` on, then halved between until it is
  // known to one in `part`, or no work is left. 0: none up to `most`.
  template <class Fits>
  int64_t least(int64_t low, int64_t high, int64_t most, int64_t part, const Fits& fits) {
    for (; high <= most && !fits(high); high *= 2) low = high;
    if (high > most) return 0;
    while (left_ > 0 && high - low > std::max<int64_t>(1, high / part)) {
      const int64_t middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
    }
    return high;
  }
  bool attempt(const std::string& words, const ModelSpec& model, const Cluster& machines, const PlanRequest& r) {
    if (out_.size() >= kMostAdvice || !fit(model, machines, r)) return false;
    out_.push_back(words);
    return true;
  }

  void offload() {
    const SearchSpace all;
    if (request_.space.states == all.states && request_.space.activations == all.activations) return;
    PlanRequest r = request_;
    r.space.states = all.states, r.space.activations = all.activations;
    if (const auto framework = request_.space.pinned.framework) {
      r.space = for_framework(std::move(r.space), *framework);
      if (r.space.states == request_.space.states && r.space.activations == request_.space.activations) return;
    }
    const std::string slow = "a slower step, and a longer search: --max-seconds";
    if (attempt(fmt::format("--offload all ({})", slow), spec_, cluster_, r) || wider_.empty()) return;
    r.space = all;
    attempt(fmt::format("--offload all {} ({})", wider_.back().words, slow), spec_, cluster_, r);
  }

  void more_nodes() {
    Cluster larger = cluster_;
    const int64_t joined = cluster_.network.empty() ? 1 : cluster_.network.back().nodes;
    if (cluster_.groups.size() == 1) {
      if (const int64_t count = enough_nodes(joined); count > 0) {
        out_.push_back(fmt::format("--nodes {}", count));
        return;
      }
    }
    for (int64_t times = 2; times <= 4096; times *= 2) {
      for (size_t g = 0; g < larger.groups.size(); ++g) larger.groups[g].count = cluster_.groups[g].count * times;
      if (larger.network.empty()) larger.network.push_back({"assumed", 1, cluster_.nodes[0].link.latency_ps, 1});
      larger.network.back().nodes = std::max<int64_t>(larger.network.back().nodes, times * 4096);
      const int64_t count = larger.groups[0].count;
      if (cluster_.groups.size() == 1 && count <= joined) continue;  // tried
      const std::string in_file = "with a [[network]] level that joins them, docs/cluster-files.md";
      std::string words = fmt::format("{} times the nodes of each type ({})", times, in_file);
      if (cluster_.groups.size() == 1) words = fmt::format("{} nodes ({})", count, in_file);
      if (attempt(words, spec_, larger, request_)) return;
    }
  }

  // The fewest nodes, of those that the network joins, with which a plan is found; 0: none.
  int64_t enough_nodes(int64_t joined) {
    const auto fits = [&](int64_t count) {
      Cluster larger = cluster_;
      larger.groups[0].count = count;
      return fit(spec_, larger, request_);
    };
    if (out_.size() >= kMostAdvice) return 0;
    const int64_t here = cluster_.groups[0].count;
    return least(here, 2 * here, joined, joined, fits);
  }

  void smaller_model() {
    std::vector<std::pair<int64_t, std::string>> presets;
    for (const std::string_view name : preset_names()) {
      const ModelSpec preset = *preset_model(name);
      const int64_t learned = learned_positions(preset), parameters = num_parameters(preset);
      if (learned > 0 && request_.job.seq > learned) continue;
      if (parameters < num_parameters(spec_)) presets.emplace_back(-parameters, name);
    }
    std::sort(presets.begin(), presets.end());
    for (const auto& [parameters, name] : presets)
      if (attempt(fmt::format("on these nodes {} ({} parameters), of the presets", name,
                              format_count(static_cast<double>(-parameters))),
                  *preset_model(name), cluster_, request_))
        return;
  }

  const ModelSpec& spec_;
  const Cluster& cluster_;
  const PlanRequest& request_;
  const std::vector<WiderSpace>& wider_;
  int64_t left_ = kMostWork;
  std::string found_;  // the choice of the last plan that was found
  std::vector<std::string> out_;
};

// Where axes are given: which to let go of.
std::vector<SmallestChange> changes_that_fit(const PlanQuestion& q) {
  const PinnedAxes& pinned = q.request.space.pinned;
  if (axes_given(pinned).empty()) return {};
  PlanRequest r = q.request;
  r.seconds = std::min(r.seconds, kChanging);
  std::vector<SmallestChange> all = smallest_changes(q.spec, q.cluster, r, q.unpinned, pinned);
  if (all.size() > kMostChanges) all.resize(kMostChanges);
  return all;
}

std::string changes_in_words(const std::vector<SmallestChange>& changes) {
  std::vector<std::string> words;
  for (const SmallestChange& c : changes)
    words.push_back(fmt::format("{} ({} a step)", c.words, step_words(c.step_ps)));
  return words.empty() ? "" : "Smallest changes that fit, fastest first: " + join(words, "; ") + ". ";
}

Json changes_json(const std::vector<SmallestChange>& changes) {
  Json out = Json::array();
  for (const SmallestChange& c : changes)
    out.push_back({{"axes", c.axes},
                   {"change", c.words},
                   {"fix", c.pins},
                   {"offload", c.offload.empty() ? Json(nullptr) : Json(c.offload)},
                   {"step_ps", c.step_ps}});
  return out;
}

// Only what ended for want of time is helped by more of it.
Error undecided(const PlanRequest& request, const PlanAnswer& a) {
  if (a.interrupted)
    return Error(ErrorKind::undecided,
                 "plan: no plan was found within {}, and it is not proven that none fits; give --max-seconds more",
                 format_seconds(std::min(request.seconds, a.seconds)));
  return Error(ErrorKind::undecided,
               "plan: no plan was found, and of {} of {} choices it is not proven that none fits: for them orders were "
               "tried that did not fit, and more time tries no others; try {}other --schedules, or fewer --max-stages",
               format_with_commas(a.open), format_with_commas(a.choices),
               request.effort == SearchEffort::thorough ? "" : "--effort thorough, ");
}

}  // namespace

Refusal refusal_of(const PlanQuestion& q, const PlanAnswer& a) {
  if (!a.proven_infeasible) return {undecided(q.request, a), ""};
  const NoFit& n = a.no_fit;
  Advisor advisor(q);
  const std::vector<std::string> fits = advisor.run();
  const auto [more, with_more] = n.tier == Tier::device ? advisor.more_memory() : std::pair(int64_t{0}, std::string());
  // A choice that was seen to fit says more than one that lacks least of the few that were looked at.
  const std::string lacks = more > 0 ? fmt::format("with {} more there is a plan ({})", format_bytes(more), with_more)
                                     : fmt::format("the nearest choice that was looked at lacks {} at least ({})",
                                                   format_bytes(n.missing_bytes), n.choice);
  const std::vector<SmallestChange> changes = changes_that_fit(q);
  const Json figures{{"fits", false},
                     {"tier", name_of(n.tier)},
                     {"missing_bytes", more > 0 ? more : n.missing_bytes},
                     {"capacity_bytes", n.capacity_bytes},
                     {"more_device_bytes", more > 0 ? Json(more) : Json(nullptr)},
                     {"nearest", more > 0 ? with_more : n.choice},
                     {"what_would_fit", fits},
                     {"smallest_changes", changes_json(changes)}};
  return {Error(ErrorKind::does_not_fit,
                "plan: {} with --batch {} --seq {} does not fit on '{}': the {} memory of each device has {}; {}. "
                "{}{}{}",
                q.request.model, q.request.job.batch, q.request.job.seq, q.cluster.name, name_of(n.tier),
                format_bytes(n.capacity_bytes), lacks, changes_in_words(changes),
                fits.empty() ? "Nothing near it was found to fit." : "What would fit: ", join(fits, "; ")),
          dump_json(figures, 2) + "\n"};
}

}  // namespace tern
