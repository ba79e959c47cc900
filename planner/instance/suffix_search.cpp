#include "planner/instance/suffix_search_impl.h"

#include <algorithm>

#include "base/error.h"
#include "base/region_errors.h"
#include "planner/instance/row_front_impl.h"

namespace tern {
namespace {

Suffix least_of(const Suffix& a, const Suffix& b) {
  return {std::min(a.round_trip, b.round_trip),
          std::min(a.span, b.span),
          std::min(a.finish, b.finish),
          std::min(a.step, b.step),
          std::min(a.forward, b.forward),
          std::min(a.backward, b.backward),
          std::min(a.mean, b.mean)};
}

class StageRound {
 public:
  StageRound(const Chain& chain, const IntervalBounds& bounds, const Windows& windows, int64_t limit,
             StageLabels::Keep keep, int stage, int threads, const Budget& budget, Round& round)
      : chain_(chain),
        bounds_(bounds),
        windows_(windows),
        limit_(limit),
        keep_(keep),
        stage_(stage),
        threads_(threads),
        budget_(budget),
        round_(round),
        labels_(chain, stage, keep) {}

  SearchEnd run() {
    join();
    std::vector<char> known(chain_.layers + 1, 0);
    for (int e = 0; e <= chain_.layers; ++e) known[e] = !joined_[e].empty();
    groups_ = group_ends(chain_, bounds_, windows_, stage_, known, least_, limit_);
    const std::vector<Job> jobs = jobs_of();
    begin_bytes_ = round_.bytes + joined_bytes();
    std::vector<StageRun> runs(jobs.size());
    std::vector<std::vector<Piece>> pieces(jobs.size());
    if (const SearchEnd end = grow(jobs, runs, pieces); end != SearchEnd::done) return end;
    gather(pieces);
    if (round_.suffixes > budget_.labels) return SearchEnd::too_many;
    keep_rest(std::move(runs));
    return SearchEnd::done;
  }

 private:
  struct Piece {
    int begin, entry;
    std::vector<SuffixLabel> suffix;
    std::vector<StageElement> element;
  };

  struct Job {
    int group, exit;
  };

  int states(int u) const { return static_cast<int>(chain_.states[u].size()); }

  std::vector<Job> jobs_of() const {
    std::vector<Job> jobs;
    for (size_t g = 0; g < groups_.size(); ++g)
      for (int l = 0; l < states(groups_[g].sample - 1); ++l)
        if (chain_.rule[stage_].takes(chain_.states[groups_[g].sample - 1][l]) &&
            std::any_of(groups_[g].ends.begin(), groups_[g].ends.end(), [&](int e) { return !joined_[e][l].empty(); }))
          jobs.push_back({static_cast<int>(g), l});
    return jobs;
  }

  // The labels of every job, and what they leave. Bytes of all jobs together are counted, and those of each alone:
  // neither depends on the threads.
  SearchEnd grow(const std::vector<Job>& jobs, std::vector<StageRun>& runs, std::vector<std::vector<Piece>>& pieces) {
    std::vector<Cuts> cuts;
    const StageCuts maker(chain_, stage_, bounds_.lambdas(stage_));
    for (const EndGroup& g : groups_) cuts.push_back(maker.make(g.sample, g.length, g.limit));
    std::atomic<int64_t> total{round_.labels}, bytes{begin_bytes_};
    std::atomic<bool> stopped{false}, full{false};
    Budget of_run = budget_;
    of_run.bytes = std::max<int64_t>(0, budget_.bytes - begin_bytes_);
    const int64_t most = std::max<int64_t>(0, budget_.labels - round_.labels);
    const auto run = [&](size_t i) {
      if (stopped || full || total > budget_.labels || bytes > budget_.bytes) return;
      if (budget_.stopped()) {
        stopped = true;
        return;
      }
      const EndGroup& g = groups_[jobs[i].group];
      runs[i] = labels_.run(g.sample, jobs[i].exit, g.length, cuts[jobs[i].group], most, of_run);
      total += runs[i].labels;
      int64_t more = 0;
      if (!runs[i].too_many) pieces[i] = combine(g, runs[i], static_cast<int>(i), of_run.bytes, more);
      if (keep_ != StageLabels::Keep::all) runs[i].front.clear();
      bytes += more + runs[i].bytes();
      if (runs[i].too_many || more > of_run.bytes) full = true;
    };
    RegionErrors errors;
#pragma omp parallel for schedule(dynamic) num_threads(threads_)
    for (size_t i = 0; i < jobs.size(); ++i) errors.guard([&] { run(i); });
    errors.rethrow();
    if (stopped || budget_.stopped()) return SearchEnd::stopped;
    round_.labels = total;
    return full || total > budget_.labels || bytes > budget_.bytes ? SearchEnd::too_many : SearchEnd::done;
  }

  void gather(std::vector<std::vector<Piece>>& pieces) {
    for (auto& job : pieces) {
      for (Piece& p : job) {
        auto& pool = round_.suffix[stage_][p.begin][p.entry];
        pool.insert(pool.end(), p.suffix.begin(), p.suffix.end());
        if (keep_ == StageLabels::Keep::bound) continue;
        auto& elements = round_.element[stage_][p.begin][p.entry];
        elements.insert(elements.end(), p.element.begin(), p.element.end());
      }
      std::vector<Piece>().swap(job);
    }
    round_.bytes = begin_bytes_;
    for (auto& at : round_.suffix[stage_])
      for (auto& pool : at) {
        pareto(pool);
        round_.suffixes += static_cast<int64_t>(pool.size());
        round_.bytes += static_cast<int64_t>(pool.size() * sizeof(SuffixLabel));
      }
  }

  // What the enumeration asks for beside the suffixes; in a plain round the ways on are forgotten with this stage.
  void keep_rest(std::vector<StageRun> runs) {
    if (keep_ == StageLabels::Keep::bound) {
      round_.bytes -= joined_bytes();
      return;
    }
    for (const auto& at : round_.element[stage_])
      for (const auto& elements : at) round_.bytes += static_cast<int64_t>(elements.size() * sizeof(StageElement));
    round_.joined[stage_] = std::move(joined_);
    if (keep_ != StageLabels::Keep::all) return;
    for (const StageRun& r : runs) round_.bytes += r.bytes();
    round_.runs[stage_] = std::move(runs);
  }

  int64_t joined_bytes() const {
    size_t ways = 0;
    for (const auto& at : joined_)
      for (const auto& list : at) ways += list.size();
    return static_cast<int64_t>(ways * sizeof(Joined));
  }

  // What may follow, per end and exit state; the link priced.
  void join() {
    joined_.assign(chain_.layers + 1, {});
    least_.assign(chain_.layers + 1, Suffix{});
    if (stage_ == chain_.stages - 1) {
      joined_[chain_.layers].assign(states(chain_.layers - 1), {Joined{}});
      return;
    }
    const bool linked = chain_.linked(stage_);
    for (int e = stage_ + 1; e < chain_.layers; ++e) {
      const auto& after = round_.suffix[stage_ + 1][e];
      bool any = false;
      for (const auto& pool : after) any |= !pool.empty();
      if (!any) continue;
      joined_[e].resize(states(e - 1));
      bool first = true;
      for (int l = 0; l < states(e - 1); ++l) {
        std::vector<Joined> all;
        for (int k = 0; k < static_cast<int>(after.size()); ++k) {
          const EdgeCost& edge = chain_.across(stage_, e - 1, l, k);
          const LinkCost link = linked ? LinkCost{edge.forward, edge.backward} : LinkCost{};
          for (size_t i = 0; i < after[k].size(); ++i)
            all.push_back({link, after[k][i].value, static_cast<int16_t>(k), static_cast<int32_t>(i)});
        }
        // In the enumeration every way on is asked for by its state; in a plain round the best suffice.
        if (keep_ == StageLabels::Keep::bound) all = best_ways(all, e);
        for (const Joined& j : all) {
          Suffix n = j.next;
          n.round_trip += j.link.forward + j.link.backward;
          if (chain_.kind == BoundKind::one_f_one_b) n.span += j.link.forward + j.link.backward;
          least_[e] = first ? n : least_of(least_[e], n);
          first = false;
        }
        joined_[e][l] = std::move(all);
      }
    }
  }

  // What a way on brings to the stage before it, the link folded in. What the link's own rate does not bound otherwise
  // is left in the second number.
  std::pair<Suffix, int64_t> with_link(const Joined& j, int e) const {
    const int64_t both = j.link.forward + j.link.backward;
    Suffix s = j.next;
    s.round_trip += both;
    s.finish += j.link.forward;
    switch (chain_.kind) {
      case BoundKind::simple:
        s.span = std::max(s.span, both);
        return {s, 0};
      case BoundKind::gpipe:
        s.forward = std::max(s.forward, j.link.forward);
        s.backward = std::max(s.backward, j.link.backward);
        return {s, 0};
      default:
        break;
    }
    s.span += both;
    s.mean += mean_share(chain_, stage_, {}, j.link);
    const int64_t wide = std::max(j.link.forward, j.link.backward);
    return {s, chain_.kind == BoundKind::one_f_one_b && wide <= slowest_link_that_hides(e) ? 0 : wide};
  }

  // A link no wider than the stage's backward adds nothing to the bound.
  int64_t slowest_link_that_hides(int e) const {
    return bounds_.longest(stage_, e) > 0 ? bounds_.least(stage_, e - 1, e).backward : 0;
  }

  // Keeps those no other is at least as good as, whatever the stage before them.
  std::vector<Joined> best_ways(const std::vector<Joined>& all, int e) const {
    std::vector<int> order(all.size());
    std::vector<std::pair<Suffix, int64_t>> values;
    for (size_t i = 0; i < all.size(); ++i) {
      order[i] = static_cast<int>(i);
      values.push_back(with_link(all[i], e));
    }
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      return std::tuple{values[a].first.round_trip, values[a].first.span, a} <
             std::tuple{values[b].first.round_trip, values[b].first.span, b};
    });
    std::vector<Joined> kept;
    RowFront front(numbers_ + 1);
    int64_t row[kMostNumbers + 1];
    for (const int i : order) {
      numbers_of(chain_, values[i].first, row);
      row[numbers_] = values[i].second;
      if (front.covers(row)) continue;
      kept.push_back(all[i]);
      front.push(row);
    }
    return kept;
  }

  bool begins(int a, int e) const {
    return windows_.before[stage_][a].reachable && e - a <= bounds_.longest(stage_, e);
  }

  // Ends early once `bytes`, those of the pieces, are above `most`.
  std::vector<Piece> combine(const EndGroup& g, const StageRun& run, int run_index, int64_t most,
                             int64_t& bytes) const {
    // Per depth and entry state what the stage can cost, memory forgotten.
    std::vector<Piece> pieces;
    for (int j = 0; j < static_cast<int>(run.front.size()); ++j) {
      if (g.limit[j].work == kNoLimit) continue;
      for (int k = 0; k < static_cast<int>(run.front[j].size()); ++k) {
        const std::vector<StageElement> elements = elements_of(run, j, k, run_index);
        if (elements.empty()) continue;
        for (const int e : g.ends) {
          const int a = e - 1 - j;
          if (a < stage_ || !begins(a, e)) continue;
          Piece piece{.begin = a, .entry = k, .suffix = {}, .element = {}};
          extend_all(piece, elements, e, run.exit);
          bytes += static_cast<int64_t>(piece.suffix.size() * sizeof(SuffixLabel) +
                                        piece.element.size() * sizeof(StageElement));
          if (bytes > most) return pieces;
          if (!piece.suffix.empty()) pieces.push_back(std::move(piece));
        }
      }
    }
    return pieces;
  }

  std::vector<StageElement> elements_of(const StageRun& run, int j, int k, int run_index) const {
    std::vector<StageElement> kept;
    // One stage alone: only its least bound matters, and there may be too many labels to compare each with each.
    if (chain_.stages == 1 && keep_ != StageLabels::Keep::all) {
      int64_t best = kNever;
      for (int i = 0; i < run.front[j][k].size(); ++i) {
        const StageElement x{labels_.cost(run, j, k, i), 0, static_cast<int16_t>(run.exit), run_index, j, i};
        const int64_t value = complete(chain_, 0, extend(chain_, 0, x.cost, {}, {}), {});
        if (value >= best) continue;
        best = value;
        kept.assign(1, x);
      }
      return kept;
    }
    for (int i = 0; i < run.front[j][k].size(); ++i) {
      const StageElement x{labels_.cost(run, j, k, i), 0, static_cast<int16_t>(run.exit), run_index, j, i};
      if (keep_ != StageLabels::Keep::all) {
        const auto better = [&](const StageElement& o) { return labels_.no_worse(o.cost, x.cost); };
        if (std::any_of(kept.begin(), kept.end(), better)) continue;
        std::erase_if(kept, [&](const StageElement& o) { return labels_.no_worse(x.cost, o.cost); });
      }
      kept.push_back(x);
    }
    return kept;
  }

  void extend_all(Piece& piece, const std::vector<StageElement>& elements, int e, int exit) const {
    const Prefix& before = windows_.before[stage_][piece.begin];
    RowFront front(numbers_);  // of piece.suffix
    int64_t row[kMostNumbers];
    for (const StageElement& x : elements) {
      bool any = false;
      const auto& ways = joined_[e][exit];
      for (const Joined& j : ways) {
        const Suffix s = extend(chain_, stage_, x.cost, j.link, j.next);
        if (complete(chain_, stage_, s, before) > limit_) continue;
        any = true;
        numbers_of(chain_, s, row);
        if (front.covers(row)) continue;
        if (front.has_worse(row)) {
          RowFront one(numbers_);
          one.push(row);
          front.clear();
          std::erase_if(piece.suffix, [&](const SuffixLabel& o) {
            int64_t other[kMostNumbers];
            numbers_of(chain_, o.value, other);
            const bool worse = one.covers(other);
            if (!worse) front.push(other);
            return worse;
          });
        }
        front.push(row);
        piece.suffix.push_back({s, x.cost, e, static_cast<int16_t>(exit), j.next_entry, j.index});
      }
      if (!any || keep_ == StageLabels::Keep::bound) continue;
      piece.element.push_back(x);
      piece.element.back().end = e;
    }
  }

  void pareto(std::vector<SuffixLabel>& pool) const {
    std::stable_sort(pool.begin(), pool.end(), [](const SuffixLabel& a, const SuffixLabel& b) {
      return std::tuple{a.value.round_trip, a.value.span, a.value.finish} <
             std::tuple{b.value.round_trip, b.value.span, b.value.finish};
    });
    std::vector<SuffixLabel> kept;
    RowFront front(numbers_);
    int64_t row[kMostNumbers];
    for (const SuffixLabel& x : pool) {
      numbers_of(chain_, x.value, row);
      if (front.covers(row)) continue;
      kept.push_back(x);
      front.push(row);
    }
    pool.swap(kept);
  }

  const Chain& chain_;
  const IntervalBounds& bounds_;
  const Windows& windows_;
  const int64_t limit_;
  const StageLabels::Keep keep_;
  const int stage_, threads_;
  const Budget& budget_;
  Round& round_;
  const int numbers_ = count_of_numbers(chain_);  // of a suffix
  StageLabels labels_;
  std::vector<std::vector<std::vector<Joined>>> joined_;
  std::vector<Suffix> least_;
  std::vector<EndGroup> groups_;
  int64_t begin_bytes_ = 0;  // when the stage begins
};

}  // namespace

Round search_suffixes(const Chain& chain, const IntervalBounds& bounds, const Windows& windows, int64_t limit,
                      StageLabels::Keep keep, int threads, const Budget& budget) {
  Round round;
  round.suffix.resize(chain.stages + 1);
  for (auto& at : round.suffix) {
    at.resize(chain.layers + 1);
    for (int u = 0; u < chain.layers; ++u) at[u].resize(chain.states[u].size());
  }
  if (keep != StageLabels::Keep::bound) {
    round.element.resize(chain.stages);
    for (auto& at : round.element) {
      at.resize(chain.layers);
      for (int u = 0; u < chain.layers; ++u) at[u].resize(chain.states[u].size());
    }
    round.joined.resize(chain.stages);
    round.runs.resize(chain.stages);
  }
  for (int i = chain.stages - 1; i >= 0 && round.outcome == SearchEnd::done; --i)
    round.outcome = StageRound(chain, bounds, windows, limit, keep, i, threads, budget, round).run();
  return round;
}

std::vector<int> recover_stage(const Chain& chain, const std::vector<double>& lambdas, StageLabels::Keep keep,
                               int stage, int begin, int entry, int end, int exit, const StageCost& cost) {
  const StageLabels labels(chain, stage, keep);
  // The only end of the run is `begin`, and the only limit the stage's own time.
  std::vector<TimeLimit> limit(end - begin);
  limit.back() = {static_cast<double>(cost.work), static_cast<double>(cost.work + cost.rest),
                  static_cast<double>(cost.done)};
  const Cuts cuts = StageCuts(chain, stage, lambdas).make(end, end - begin, limit);
  const StageRun run = labels.run(end, exit, end - begin, cuts, int64_t{1} << 62, {});
  const int j = end - begin - 1;
  TERN_CHECK(static_cast<int>(run.front.size()) > j, "recover: stage {} over [{}, {}) has no label", stage, begin, end);
  for (int i = 0; i < run.front[j][entry].size(); ++i) {
    const StageCost c = labels.cost(run, j, entry, i);
    if (c == cost || labels.no_worse(c, cost)) return labels.strategies(run, j, entry, i);
  }
  TERN_CHECK(false, "recover: stage {} over [{}, {}): no label costs {}", stage, begin, end, cost.work);
  return {};
}

Assignment recover(const Chain& chain, const IntervalBounds& bounds, const Round& round, int entry, int index) {
  Assignment a;
  const SuffixLabel* label = &round.suffix[0][0][entry][index];
  int begin = 0;
  for (int stage = 0; stage < chain.stages; ++stage) {
    const auto strategies = recover_stage(chain, bounds.lambdas(stage), StageLabels::Keep::bound, stage, begin, entry,
                                          label->end, label->exit, label->cost);
    a.strategy.insert(a.strategy.end(), strategies.begin(), strategies.end());
    a.stage.insert(a.stage.end(), strategies.size(), stage);
    begin = label->end;
    entry = label->next_entry;
    if (stage + 1 < chain.stages) label = &round.suffix[stage + 1][begin][entry][label->next];
  }
  return a;
}

}  // namespace tern
