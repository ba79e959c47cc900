#include "planner/words/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "planner/words/plan_text.h"
#include "program/pipeline_timeline.h"
#include "report/capacity_chart.h"
#include "report/html.h"
#include "report/svg_column.h"
#include "report/table.h"
#include "report/timeline.h"

namespace tern {
namespace {

constexpr size_t kMostRows = 16;
// Kinds of spans; the weight gradient is one of its own only where the schedule splits it.
enum Kind : int { kForward, kBackward, kWeight, kBegin, kTail };

double seconds(int64_t ps) { return static_cast<double>(ps) * 1e-12; }

bool is_shown(size_t rank, size_t ranks) {
  return ranks <= kMostRows || rank < kMostRows / 2 || rank + kMostRows / 2 >= ranks;
}
std::string left_out(size_t ranks) {
  return ranks <= kMostRows ? "" : fmt::format(" (ranks {} to {} left out)", kMostRows / 2, ranks - kMostRows / 2 - 1);
}

// The legend without what does not occur.
void keep_seen_kinds(Timeline& t) {
  std::vector<int> now(t.kinds.size(), -1);
  std::vector<std::string> kinds;
  for (size_t k = 0; k < t.kinds.size(); ++k) {
    const auto is_k = [&](const TimelineSpan& s) { return s.kind == static_cast<int>(k); };
    if (std::any_of(t.rows.begin(), t.rows.end(),
                    [&](const TimelineRow& r) { return std::any_of(r.spans.begin(), r.spans.end(), is_k); }))
      now[k] = static_cast<int>(kinds.size()), kinds.push_back(t.kinds[k]);
  }
  for (TimelineRow& r : t.rows)
    for (TimelineSpan& s : r.spans) s.kind = now[static_cast<size_t>(s.kind)];
  t.kinds = std::move(kinds);
}

std::vector<double> tier_parts(const PlanAnswer& a, size_t rank, Tier tier) {
  std::vector<double> parts;
  for (const int64_t bytes : memory_parts(a.memory[rank][static_cast<size_t>(tier)]))
    parts.push_back(static_cast<double>(bytes));
  return parts;
}

// The same numbers in full, for those who add them up.
Table memory_table(const PlanAnswer& a) {
  Table t{{{"rank"}, {"tier"}, {"bytes at most", Align::right}}, {}};
  for (const std::string_view title : kMemoryTitles) t.columns.push_back({std::string(title), Align::right});
  for (size_t r = 0; r < a.memory.size(); ++r)
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      const int64_t used = a.plan.ranks[r].peak[static_cast<size_t>(tier)];
      if ((tier != Tier::device && used == 0) || !is_shown(r, a.memory.size())) continue;
      std::vector<std::string> row{fmt::format("{}", r), std::string(name_of(tier)), format_with_commas(used)};
      for (const int64_t bytes : memory_parts(a.memory[r][static_cast<size_t>(tier)]))
        row.push_back(format_with_commas(bytes));
      t.rows.push_back(std::move(row));
    }
  return t;
}

std::string headline(const Plan& p) { return fmt::format("{} on {}: {}", p.model, p.hardware, to_string(p.choice)); }

}  // namespace

std::string plan_timeline(const PlanAnswer& a) {
  const auto ops = pipeline_timeline(a.shape, a.times);
  Timeline t{.title = fmt::format("One step, {}{}", step_words(a.plan.step_ps), left_out(ops.size())),
             .kinds = {"forward", "backward", "weight gradient", "before the first", "gradients left and update"},
             .end = seconds(a.plan.step_ps)};
  for (size_t d = 0; d < ops.size(); ++d) {
    if (!is_shown(d, ops.size())) continue;
    TimelineRow row{.name = ops.size() == 1 ? "every rank" : fmt::format("stage {}", d)};
    if (a.times.begin[d] > 0) row.spans.push_back({0, seconds(a.times.begin[d]), kBegin});
    for (const TimedOp& o : ops[d])
      row.spans.push_back({seconds(o.begin), seconds(o.end), static_cast<int>(o.op.phase)});
    const int64_t end = ops[d].back().end;
    if (a.times.tail[d] > 0) row.spans.push_back({seconds(end), seconds(end + a.times.tail[d]), kTail});
    t.rows.push_back(std::move(row));
  }
  keep_seen_kinds(t);
  return svg(t);
}

std::string plan_memory(const PlanAnswer& a) {
  const std::vector<PlannedRank>& ranks = a.plan.ranks;
  CapacityChart chart{.title = "Most that a device holds, of what there is" + left_out(ranks.size()),
                      .kinds = {kMemoryTitles.begin(), kMemoryTitles.end()}};
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (!is_shown(r, ranks.size())) continue;
    for (const Tier tier : {Tier::device, Tier::host, Tier::disk}) {
      const auto at = static_cast<size_t>(tier);
      const int64_t used = ranks[r].peak[at], there = ranks[r].capacity[at];
      if (tier != Tier::device && used == 0) continue;
      const std::string of = ranks.size() == 1 ? "every rank" : fmt::format("stage {}", r);
      chart.bars.push_back({tier == Tier::device ? of : fmt::format("{}, {}", of, name_of(tier)),
                            static_cast<double>(used), static_cast<double>(there),
                            fmt::format("{} of {}", format_bytes(used), format_bytes(there)), tier_parts(a, r, tier)});
    }
  }
  return svg(chart);
}

std::string plan_picture(const PlanAnswer& a) {
  const Plan& p = a.plan;
  return svg_column(
      headline(p),
      {fmt::format("{} a step, {} tokens/s, MFU {:.1f} %; no choice is faster than {}", step_words(p.step_ps),
                   format_count(p.tokens_per_second()), 100 * p.flops_share, step_words(p.bound_ps))},
      {plan_timeline(a), plan_memory(a)});
}

std::string plan_page(const ModelSpec& spec, const Cluster& cluster, const PlanAnswer& a, const PlanStory& story) {
  const Plan& p = a.plan;
  HtmlPage page(headline(p));
  page.paragraph(fmt::format("Batch {}, sequences of {}. {} of {} devices. {} per step, {} tokens/s.", p.job.batch,
                             p.job.seq, p.choice.devices(), cluster.num_devices(), step_words(p.step_ps),
                             format_count(p.tokens_per_second())));
  page.paragraph(fmt::format("Binds: {}. No choice is faster than {} (gap {:.2f} %).", p.binds, step_words(p.bound_ps),
                             100 * p.simulator_gap()));
  page.heading("The step");
  page.svg(plan_timeline(a), "Predicted by the simulator, operation by operation; white is waiting.");
  page.heading("Memory");
  page.svg(plan_memory(a), "The mark is the capacity less what is reserved.");
  page.table(memory_table(a));
  page.paragraph(fmt::format("In the table {}.", kMemoryWords));
  page.heading("Layers");
  Table layers{{{"layers"}, {"stage"}, {"strategy"}}, {}};
  for (const PlannedLayers& l : p.layers)
    layers.rows.push_back(
        {fmt::format("{} to {}", l.first, l.first + l.count - 1), fmt::format("{}", l.stage), to_string(l.strategy)});
  page.table(layers);
  page.heading("Rivals");
  Table rivals{{{"with"}, {"at least"}, {"some plan of it"}, {"choice"}}, {}};
  for (const PlannedFamily& f : p.families)
    rivals.rows.push_back({f.feature, f.fits ? step_words(f.bound_ps) : "no room", f.found ? step_words(f.step_ps) : "",
                           rival_words(p, f)});
  page.table(rivals);
  page.heading("What follows");
  page.preformatted(story_words(spec, cluster, p, story));
  if (!p.restrictions.empty()) {
    page.heading("Within");
    for (const std::string& r : p.restrictions) page.paragraph(r);
  }
  page.paragraph("Times are a prediction from the cluster's file; bytes are those of tern's own engine.");
  if (!story.uncalibrated.empty()) page.paragraph("Times are " + story.uncalibrated + ".");
  return page.str();
}

}  // namespace tern
