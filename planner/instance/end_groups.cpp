#include <algorithm>

#include "base/region_errors.h"
#include "planner/instance/windows_impl.h"

namespace tern {

// From `complete(extend(...)) <= limit`, term by term; n is the least of what may follow, its link included in t and y.
TimeLimit time_limit(const Chain& c, int stage, const Prefix& before, const Suffix& n, int64_t limit) {
  const auto d = [](int64_t x) { return static_cast<double>(x); };
  const double micro = d(c.micro), v = d(limit), sum = d(before.sum);
  const double done = v - d(before.forward);
  switch (c.kind) {
    case BoundKind::one_f_one_b: {
      const double trips = d((c.micro - 1) / c.rule[stage].in_flight + 1),
                   trips0 = d((c.micro - 1) / c.rule[0].in_flight + 1);
      return {std::min({(v - sum) / micro, v - sum - d(n.span), v - sum - d(before.most) - d(n.round_trip),
                        (v - sum) / trips - d(n.round_trip), v / trips0 - sum - d(n.round_trip)}),
              v - sum - d(n.round_trip), done};
    }
    case BoundKind::gpipe:
    case BoundKind::simple: {
      const double left = v - sum - d(n.round_trip);
      return {std::min(left / micro, left - (micro - 1) * d(std::max(n.span, before.most))), 1e300, done};
    }
    case BoundKind::zero_bubble:
      return {done / micro, 1e300, done};
    case BoundKind::chunked:
      return {std::min(done / micro, (d(c.devices) * v - d(before.mean) - d(n.mean)) / micro), 1e300, done};
  }
  return {};
}

std::vector<EndGroup> group_ends(const Chain& chain, const IntervalBounds& bounds, const Windows& w, int stage,
                                 const std::vector<char>& next_reachable, const std::vector<Suffix>& next,
                                 int64_t limit) {
  struct End {
    int e, length;
    std::vector<TimeLimit> limit;
  };
  std::vector<End> ends;
  for (int e = stage + 1; e <= chain.layers; ++e) {
    if (!next_reachable[e]) continue;
    End end{.e = e, .length = 0, .limit = {}};
    for (int a = e - 1; a >= stage && e - a <= bounds.longest(stage, e); --a) {
      end.limit.push_back({});
      if (!w.before[stage][a].reachable) continue;
      end.limit.back() = time_limit(chain, stage, w.before[stage][a], next[e], limit);
      // No stage there is that fast: the next may be.
      if (end.limit.back().work < static_cast<double>(bounds.least(stage, a, e).work)) {
        end.limit.back() = {};
        continue;
      }
      end.length = e - a;
    }
    end.limit.resize(end.length);
    if (end.length > 0) ends.push_back(std::move(end));
  }
  std::stable_sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.length > b.length; });
  std::vector<EndGroup> groups;
  for (const End& end : ends) {
    EndGroup* home = nullptr;
    for (EndGroup& g : groups) {
      int same = 0;
      while (same < end.length && chain.form[end.e - 1 - same] == chain.form[g.sample - 1 - same]) ++same;
      if (same == end.length) {
        home = &g;
        break;
      }
    }
    if (!home) {
      groups.push_back({.sample = end.e, .length = end.length, .ends = {}, .limit = {}});
      home = &groups.back();
      home->limit.resize(end.length);
    }
    home->ends.push_back(end.e);
    for (int j = 0; j < end.length; ++j) {
      home->limit[j].work = std::max(home->limit[j].work, end.limit[j].work);
      home->limit[j].work_and_rest = std::max(home->limit[j].work_and_rest, end.limit[j].work_and_rest);
      home->limit[j].done = std::max(home->limit[j].done, end.limit[j].done);
    }
  }
  return groups;
}

void IntervalBounds::tighten_stage(Table& table, int stage, StageLabels::Keep keep, const std::vector<EndGroup>& groups,
                                   const Budget& budget) const {
  const CutOn on = keep == StageLabels::Keep::least                 ? CutOn::work
                   : keep == StageLabels::Keep::least_work_and_rest ? CutOn::work_and_rest
                                                                    : CutOn::done;
  std::vector<std::vector<int64_t>>& least_of = on == CutOn::work            ? table.work
                                                : on == CutOn::work_and_rest ? table.work_and_rest
                                                                             : table.done;
  const StageLabels labels(chain_, stage, keep);
  const StageCuts cuts(chain_, stage, table.lambdas);
  if (least_of.empty()) {
    least_of = table.work;
    for (auto& row : least_of) std::fill(row.begin(), row.end(), 0);
  }
  for (const EndGroup& g : groups) {
    const std::vector<TimeLimit>& times = g.limit;
    const StageRun run =
        labels.run(g.sample, -1, g.length, cuts.make(g.sample, g.length, times), budget.labels / 16, budget);
    if (run.too_many) continue;
    for (int j = 0; j < g.length; ++j) {
      if (times[j].work == kNoLimit) continue;
      const double most = std::min(times[j].of(on), static_cast<double>(kNever));
      int64_t least = static_cast<int64_t>(most) + 1;  // what no label found is above
      if (j < static_cast<int>(run.front.size()))
        for (int s = 0; s < static_cast<int>(run.front[j].size()); ++s)
          for (int i = 0; i < run.front[j][s].size(); ++i) least = std::min(least, labels.cost(run, j, s, i).work);
      for (const int e : g.ends) {
        auto& row = least_of[e];
        if (j < static_cast<int>(row.size()) && row[j] < kNever) row[j] = std::max(row[j], least);
      }
    }
  }
}

void IntervalBounds::tighten(const Windows& w, int64_t limit, int threads, const Budget& budget) {
  std::vector<Table> tighter(chain_.stages);
  const auto tighten_one = [&](int stage) {
    tighter[stage] = tables_[table_of_[stage]];
    if (budget.stopped()) return;
    std::vector<Suffix> next(chain_.layers + 1);
    for (int e = 0; e <= chain_.layers; ++e) {
      const LinkCost link = e > 0 ? least_link(stage, e) : LinkCost{};
      next[e] = w.after[stage + 1][e];
      next[e].round_trip += link.forward + link.backward;
      if (chain_.kind == BoundKind::one_f_one_b) next[e].span += link.forward + link.backward;
    }
    const auto groups = group_ends(chain_, *this, w, stage, w.after_reachable[stage + 1], next, limit);
    tighten_stage(tighter[stage], stage, StageLabels::Keep::least, groups, budget);
    if (chain_.kind == BoundKind::one_f_one_b && chain_.rule[stage].in_flight > 1)
      tighten_stage(tighter[stage], stage, StageLabels::Keep::least_work_and_rest, groups, budget);
    if (chain_.has_tail && chain_.kind != BoundKind::simple && chain_.kind != BoundKind::chunked)
      tighten_stage(tighter[stage], stage, StageLabels::Keep::least_done, groups, budget);
  };
  RegionErrors errors;
#pragma omp parallel for schedule(dynamic) num_threads(threads)
  for (int stage = 0; stage < chain_.stages; ++stage) errors.guard([&] { tighten_one(stage); });
  errors.rethrow();
  tables_ = std::move(tighter);
  for (int stage = 0; stage < chain_.stages; ++stage) table_of_[stage] = stage;
}

}  // namespace tern
