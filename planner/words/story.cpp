#include "planner/words/story.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/shell.h"
#include "base/text.h"
#include "base/units.h"
#include "hardware/rates.h"
#include "plan/job_windows.h"
#include "plan/window_mix.h"
#include "planner/words/lengths_text.h"
#include "planner/words/plan_text.h"
#include "planner/words/planned_points.h"
#include "planner/words/shadow_prices.h"
#include "spec/training_flops.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

constexpr double kTied = 0.02;
constexpr std::string_view kMfu =
    "FLOPs of a token's forward and backward (6 per parameter that multiplies, 4 where it is frozen, + 12 per attended "
    "pair, head width and "
    "layer; a token attends to itself and to earlier ones; recomputed work does not count) × tokens/s ÷ (used "
    "devices × peak of the dtype)";
// Of sequences of unlike length.
constexpr std::string_view kRealMfu =
    "; tokens and pairs are real ones: padding, and what lies between sequences, counts as nothing";
constexpr std::string_view kRunFormula =
    "interval √(2δM)·(1 + √(δ/2M)/3 + δ/18M) − δ, time M·e^(R/M)·(e^((τ+δ)/M) − 1)·T/τ (Daly 2006; Young 1974 is "
    "√(2δM)): "
    "δ pause for a checkpoint, R restart, M mean time between failures of the job, T steps alone";

double peak_of_used(const Cluster& cluster, const Plan& p) {
  double peak = 0;
  for (const PlannedRank& r : p.ranks)
    for (const NodeType& n : cluster.nodes)
      if (n.name == r.node)
        peak += static_cast<double>(p.choice.mesh.devices()) *
                peak_flops(cluster.devices[static_cast<size_t>(n.device)], p.job.dtype);
  return peak;
}

std::string mfu_formula(const Plan& p) {
  return std::string(kMfu) + (p.job.lengths.given() ? std::string(kRealMfu) : "");
}

std::string words(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& w : command) text += (text.empty() ? "" : " ") + shell_quoted(w);
  return text;
}

// Lines under a key of ten letters, as those of the plan itself.
struct Words {
  std::string text;
  void line(std::string_view key, const std::string& words) { text += labelled(key, words); }
};
std::string days(double s) { return s >= 2 * 86400 ? fmt::format("{:.1f} days", s / 86400) : format_seconds(s); }
std::string more(int64_t step, int64_t best) {
  return fmt::format("{:+.1f} %", 100.0 * (static_cast<double>(step) / static_cast<double>(best) - 1));
}

void tell_run(Words& w, const PlanStory& story, bool real) {
  const RunCost& r = *story.run;
  w.line("run", fmt::format("{} {}tokens: {} steps, {} without interruptions; {} with checkpoints and failures",
                            format_count(story.terms.tokens), real ? "real " : "", format_with_commas(r.steps),
                            days(r.steps_s), r.ends ? days(r.wall_s) : "never finishes"));
  const std::string failures = r.ends ? fmt::format("{:.1f} in all", r.failures) : "so that it never ends";
  w.line("", fmt::format("a failure every {} ({} per device), {}; a checkpoint of {} every {} ({} each), a "
                         "restart {}",
                         days(r.mtbf_s), days(story.terms.mtbf_s), failures, format_bytes(r.checkpoint_bytes),
                         days(r.interval_s), format_seconds(r.checkpoint_s), format_seconds(r.restart_s)));
  w.line("", std::string(kRunFormula));
  if (!r.ends) return;
  const std::string hours = fmt::format("{} device-hours", format_count(r.device_hours));
  w.line("cost", r.has_price ? fmt::format("{:.2f} for {}", r.cost, hours)
                             : hours + "; no price in the cluster's file: --price-per-hour");
}

void tell_points(Words& w, std::string_view title, std::string_view asked, const std::vector<PlannedPoint>& points,
                 bool nodes) {
  w.text += fmt::format("\n{}\n  {:>10} {:>10} {:>10} {:>10} {:>14}\n", title, asked, "devices", "step", "tokens/s",
                        "per M tokens");
  const bool all = all_searched(points);  // else one that was cut might beat the one that is marked
  const auto least = [&](const auto& number) {
    const PlannedPoint* best = nullptr;
    if (!all) return best;
    for (const PlannedPoint& p : points)
      if (p.found && (!best || number(p) < number(*best))) best = &p;
    return best;
  };
  const PlannedPoint* fewest = least([](const auto& p) { return static_cast<double>(p.devices); });
  const PlannedPoint* cheapest = least([](const auto& p) { return p.price_per_million_tokens(); });
  const PlannedPoint* fastest = least([](const auto& p) { return -p.tokens_per_second; });
  for (const PlannedPoint& p : points) {
    if (!p.found) {
      w.text += fmt::format("  {:>10} {}\n", p.asked,
                            !p.searched ? "not searched: stopped before"
                            : p.cut     ? "no plan found before its search was cut"
                                        : "nothing fits, or no choice is legal");
      continue;
    }
    std::vector<std::string> marks;
    if (nodes && &p == fewest) marks.emplace_back("fewest devices");
    if (&p == cheapest && p.price_per_hour > 0) marks.emplace_back("lowest cost");
    if (&p == fastest) marks.emplace_back("fastest");
    if (nodes && all && !p.front) marks.emplace_back("another is better in all three");
    if (p.cut) marks.emplace_back("search cut: there may be a better one");
    w.text += fmt::format("  {:>10} {:>10} {:>10} {:>10} {:>14}  {}{}\n", p.asked, p.devices, step_words(p.step_ps),
                          format_count(p.tokens_per_second), fmt::format("{:.4f}", p.price_per_million_tokens()),
                          p.choice, marks.empty() ? "" : " (" + join(marks, ", ") + ")");
  }
  const auto ended = std::count_if(points.begin(), points.end(), [](const PlannedPoint& p) { return !p.cut; });
  if (!all)
    w.text += fmt::format("  {} of {} were searched to their end: which is best is not known, so none is marked\n",
                          ended, points.size());
}

Json points_json(const std::vector<PlannedPoint>& points, std::string_view asked) {
  Json out = Json::array();
  const bool all = all_searched(points);
  for (const PlannedPoint& p : points)
    out.push_back({{std::string(asked), p.asked},
                   {"found", p.found},
                   {"searched", p.searched},
                   {"cut", p.cut},
                   {"devices", p.devices},
                   {"step_ps", p.step_ps},
                   {"tokens_per_second", p.tokens_per_second},
                   {"price_per_million_tokens", p.price_per_million_tokens()},
                   {"front", all ? Json(p.front) : Json()},
                   {"choice", p.choice}});
  return out;
}

// Of each rank its tiers, of each what its bytes are for; "total" is the rank's peak_bytes.
Json memory_json(const std::vector<PlannedMemoryByTier>& ranks) {
  Json out = Json::array();
  for (const PlannedMemoryByTier& rank : ranks) {
    Json& row = out.emplace_back();
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      const PlannedMemory& m = rank[static_cast<size_t>(tier)];
      row[std::string(name_of(tier))] = {{"weights", m.weights},     {"gradients", m.gradients},
                                         {"optimizer", m.optimizer}, {"activations", m.activations},
                                         {"buffers", m.buffers},     {"total", m.total()}};
    }
  }
  return out;
}

Json rivals_json(const std::vector<Rival>& rivals) {
  Json out = Json::array();
  for (const Rival& r : rivals) out.push_back({{"choice", r.choice}, {"step_ps", r.step_ps}});
  return out;
}

std::vector<Rival> rivals_of(const Plan& p) {
  std::vector<Rival> out;
  const std::string own = to_string(p.choice);
  for (const PlannedFamily& f : p.families) {
    const bool known = std::any_of(out.begin(), out.end(), [&](const Rival& r) { return r.choice == f.choice; });
    if (f.found && f.choice != own && !known) out.push_back({f.choice, f.step_ps});
  }
  std::stable_sort(out.begin(), out.end(), [](const Rival& a, const Rival& b) { return a.step_ps < b.step_ps; });
  return out;
}

}  // namespace

std::vector<Rival> ties_of(const Plan& p, double share) {
  std::vector<Rival> out = rivals_of(p);
  std::erase_if(out, [&](const Rival& r) {
    return static_cast<double>(r.step_ps) > (1 + share) * static_cast<double>(p.step_ps);
  });
  return out;
}

std::vector<Rival> measure_first(const Plan& p) {
  std::vector<Rival> out{{to_string(p.choice), p.step_ps}};
  for (const Rival& r : rivals_of(p))
    if (out.size() < 3) out.push_back(r);
  return out;
}

PlanStory story_of(const PlanQuestion& q, const PlanAnswer& answer) {
  const Plan& plan = answer.plan;
  PlanStory story;
  story.memory = answer.memory;
  if (q.run) story.terms = *q.run, story.run = run_cost(q.spec, q.cluster, plan, *q.run);
  if (q.what_if) story.shadow = shadow_prices(q.spec, q.cluster, q.request, plan);
  if (q.node_counts) story.nodes = plan_node_counts(q.spec, q.cluster, q.request, answer);
  if (const auto f = q.request.space.pinned.framework) {
    const auto node = std::find_if(q.cluster.nodes.begin(), q.cluster.nodes.end(),
                                   [&](const NodeType& n) { return n.name == plan.ranks.front().node; });
    TERN_CHECK(node != q.cluster.nodes.end(), "plan: no node '{}'", plan.ranks.front().node);
    story.framework = f, story.emitted = emit_plan(*f, q.spec, plan, node->num_devices);
  }
  return story;
}

Json story_json(const ModelSpec& spec, const Cluster& cluster, const Plan& p, const PlanStory& story) {
  Json j{{"tokens_per_second", p.tokens_per_second()},
         {"mfu", p.flops_share},
         {"mfu_formula", mfu_formula(p)},
         {"flops_per_token", training_flops_per_token(spec, p.job)},
         {"peak_flops_of_used_devices", peak_of_used(cluster, p)},
         {"tied_within", kTied},
         {"tied", rivals_json(ties_of(p, kTied))},
         {"measure_first", rivals_json(measure_first(p))},
         {"memory", memory_json(story.memory)}};
  if (!story.uncalibrated.empty()) j["uncalibrated"] = story.uncalibrated;
  if (p.job.lengths.given()) j["lengths"] = lengths_json(spec, p);
  const auto of_an_end = [&](double x) { return story.run->ends ? Json(x) : Json(); };
  if (const auto& r = story.run)
    j["run"] = {{"tokens", story.terms.tokens},
                {"steps", r->steps},
                {"steps_seconds", r->steps_s},
                {"mtbf_of_device_seconds", story.terms.mtbf_s},
                {"mtbf_of_job_seconds", r->mtbf_s},
                {"checkpoint_bytes", r->checkpoint_bytes},
                {"checkpoint_seconds", r->checkpoint_s},
                {"checkpoint_interval_seconds", r->interval_s},
                {"restart_seconds", r->restart_s},
                {"ends", r->ends},
                {"failures", of_an_end(r->failures)},
                {"wall_seconds", of_an_end(r->wall_s)},
                {"device_hours", of_an_end(r->device_hours)},
                {"cost", r->has_price ? of_an_end(r->cost) : Json()},
                {"formula", kRunFormula}};
  if (!story.shadow.empty()) {
    Json& rows = j["shadow_prices"] = Json::array();
    for (const ShadowPrice& s : story.shadow)
      rows.push_back({{"what", s.what},
                      {"step_ps", s.step_ps},
                      {"gained_ps", p.step_ps - s.step_ps},
                      {"choice", s.choice},
                      {"cut", s.cut}});
  }
  if (!story.nodes.empty()) j["node_counts"] = points_json(story.nodes, "nodes");
  if (!story.batches.empty()) j["batches"] = points_json(story.batches, "batch");
  if (story.framework)
    j["emit"] = {{"framework", name_of(*story.framework)},
                 {"file", story.emitted.file},
                 {"text", story.emitted.text},
                 {"command", story.emitted.command},
                 {"rank_order", story.emitted.rank_order},
                 {"notes", story.emitted.notes}};
  return j;
}

namespace {

// Of small machines too with digits enough for the division beside it.
std::string peak_words(double flops_per_s) {
  if (flops_per_s >= 1e13) return format_with_commas(std::llround(flops_per_s * 1e-12)) + " TFLOP/s";
  if (flops_per_s >= 1e11) return format_with_commas(std::llround(flops_per_s * 1e-9)) + " GFLOP/s";
  return fmt::format("{:.3g} GFLOP/s", flops_per_s * 1e-9);
}

void tell_share(Words& w, const ModelSpec& spec, const Cluster& cluster, const Plan& p) {
  w.line("MFU", fmt::format("{:.2f} % = {} a token × {} tokens/s ÷ {} of {}", 100 * p.flops_share,
                            fmt::format("{:.3g} GFLOP", training_flops_per_token(spec, p.job) * 1e-9),
                            format_count(p.tokens_per_second()), peak_words(peak_of_used(cluster, p)),
                            counted(p.choice.devices(), "device")));
  w.line("", mfu_formula(p));
}

void tell_near(Words& w, const Plan& p) {
  const std::vector<Rival> ties = ties_of(p, kTied);
  w.line("tied", ties.empty() ? fmt::format("no rival seen within {:.0f} %", 100 * kTied)
                              : fmt::format("{} within {:.0f} % of this plan (a prediction cannot tell them apart)",
                                            counted(static_cast<int64_t>(ties.size()), "rival"), 100 * kTied));
  const std::vector<Rival> first = measure_first(p);
  for (size_t i = 0; i < first.size(); ++i)
    w.line(i == 0 ? "measure" : "",
           fmt::format("{}. {}{}", i + 1, first[i].choice,
                       i == 0 ? " (this plan)" : fmt::format(" ({})", more(first[i].step_ps, p.step_ps))));
}

}  // namespace

std::string story_words(const ModelSpec& spec, const Cluster& cluster, const Plan& p, const PlanStory& story,
                        bool details) {
  Words w;
  if (details) tell_share(w, spec, cluster, p);
  w.text += lengths_words(spec, p);
  if (story.run) tell_run(w, story, p.job.lengths.given());
  if (details) tell_near(w, p);
  for (size_t i = 0; i < story.shadow.size(); ++i) {
    const ShadowPrice& s = story.shadow[i];
    const double gain = 100 * (1 - static_cast<double>(s.step_ps) / static_cast<double>(p.step_ps));
    w.line(i == 0 ? "worth" : "",
           fmt::format("{}: {}{}", s.what,
                       s.step_ps == p.step_ps            ? "nothing found that is faster"
                       : s.choice == to_string(p.choice) ? fmt::format("{:.2f} % less per step", gain)
                                                         : fmt::format("{:.2f} % less per step, by {}", gain, s.choice),
                       s.cut ? " (search cut: it may be worth more)" : ""));
  }
  if (!story.nodes.empty()) tell_points(w, "how many nodes", "nodes", story.nodes, true);
  if (!story.batches.empty())
    tell_points(w, "batches (most tokens/s are planned above)", "batch", story.batches, false);
  if (!story.framework) return w.text;
  const EmittedPlan& e = story.emitted;
  w.text += fmt::format("\n{}: {}\n{}", name_of(*story.framework), e.file, e.text);
  if (e.file.ends_with(".json")) w.text += words(e.command) + "\n";
  w.line("ranks", e.rank_order);
  for (const std::string& n : e.notes) w.line("note", n);
  return w.text;
}

}  // namespace tern
