#include "planner/stage_labels_impl.h"

#include <algorithm>
#include <numeric>

namespace tern {

StageLabels::StageLabels(const Chain& chain, int stage, Keep keep)
    : chain_(chain), rule_(chain.rule[stage]), keep_(keep) {
  const bool simple = chain.kind == BoundKind::simple, least = keep == Keep::least || keep == Keep::least_pq,
             bound = keep == Keep::bound;
  const bool tail = !simple && !least && chain.has_tail;
  // A lower bound of backlog and update in one number; chunks count the update alone.
  const bool drain = tail && bound && chain.kind != BoundKind::chunked;
  const bool host = chain.has_host_link && !least;
  reduced_ = least || (bound && !host && (simple || chain.kind == BoundKind::one_f_one_b));
  alpha_ = chain.micro - rule_.in_flight;
  beta_ = chain.micro - 1;
  if (keep == Keep::least_pq) first_forward_ = 1 + alpha_, first_backward_ = 1 + beta_;
  const auto place = [&](bool wanted) { return wanted ? dims_++ : -1; };
  forward_ = place(true);
  // With one micro-batch in flight q is a multiple of p.
  backward_ = place(!reduced_ || (!simple && !least && alpha_ != beta_));
  bytes_[0] = place(true);
  weight_ = place(!reduced_ && chain.split);
  for (int t = 1; t < kTiers; ++t) bytes_[t] = place(chain.has_tier[t]);
  host_forward_ = place(host);
  host_backward_ = place(host);
  update_ = place(tail && !drain);
  begin_ = place(!simple && !bound && !least && chain.has_begin);
  sums_ = dims_;
  transient_ = place(chain.has_transient);
  sync_ = place(tail && !drain && chain.kind != BoundKind::chunked);
  drain_ = place(drain);

  for (auto* sums : {&least_forward_, &least_update_, &least_begin_}) sums->assign(1, 0);
  for (const auto& states : chain.states) {
    int64_t f = kNever, u = kNever, b = kNever;
    for (const UnitState& s : states)
      for (const UnitCost& c : s.options)
        f = std::min(f, c.forward), u = std::min(u, c.update), b = std::min(b, c.begin);
    least_forward_.push_back(least_forward_.back() + f);
    least_update_.push_back(least_update_.back() + u);
    least_begin_.push_back(least_begin_.back() + b);
  }

  stride_ = sums_ + 3;
  offset_.resize(chain.layers);
  for (int u = 0; u < chain.layers; ++u) {
    if (chain.form[u] != u) {
      offset_[u] = offset_[chain.form[u]];
      continue;
    }
    for (const UnitState& state : chain.states[u]) {
      offset_[u].push_back(adds_.size());
      for (const UnitCost& c : state.options) {
        std::vector<int64_t> row(stride_, 0);
        if (reduced_) {
          row[forward_] = first_forward_ * c.forward + first_backward_ * c.backward + c.weight;
          if (backward_ >= 0) row[backward_] = alpha_ * c.forward + beta_ * c.backward;
        } else {
          row[forward_] = c.forward;
          row[backward_] = c.backward;
        }
        const auto put = [&](int at, int64_t value) {
          if (at >= 0) row[at] = value;
        };
        put(weight_, c.weight);
        for (int t = 0; t < kTiers; ++t) put(bytes_[t], chain.stage_bytes(c, rule_, t));
        put(host_forward_, c.host_forward);
        put(host_backward_, c.host_backward);
        put(update_, c.update);
        put(begin_, c.begin);
        row[sums_] = c.transient;
        row[sums_ + 1] = c.sync;
        row[sums_ + 2] = c.last_gradient;
        if (drain_ >= 0) row[sums_ + 1] += c.update;
        adds_.insert(adds_.end(), row.begin(), row.end());
      }
    }
  }
}

const int64_t* StageLabels::add(int u, int state, int option) const {
  return adds_.data() + offset_[u][state] + static_cast<size_t>(option) * stride_;
}

StageRun StageLabels::run(int end, int exit, int length, const Cuts& cuts, int64_t most, const Budget& budget) const {
  StageRun run{.end = end, .exit = exit, .front = {}};
  std::vector<int64_t> x, base(dims_), row(dims_);
  std::vector<LabelParent> parent;
  // The cuts side by side for each layer and state, the strongest (lambdas in the middle) first.
  std::vector<const Cut*> used;
  for (const Cut& c : cuts.cuts)
    if (c.with_q || keep_ != Keep::least_pq) used.push_back(&c);  // cuts of p alone know nothing of p + q
  std::rotate(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2), used.end());
  const size_t kinds = used.size();
  std::vector<double> lambda(kinds), with_q(kinds), limits(static_cast<size_t>(length) * cuts.width * kinds);
  for (size_t m = 0; m < kinds; ++m) {
    lambda[m] = used[m]->lambda;
    with_q[m] = used[m]->with_q ? 1 : 0;
    for (size_t i = 0; i < used[m]->limit.size(); ++i) limits[i * kinds + m] = used[m]->limit[i];
  }
  const auto survives = [&](const int64_t* label, int j, int state) {
    int64_t device = label[bytes_[0]] + (transient_ >= 0 ? label[transient_] : 0);
    if (device > rule_.capacity[0]) return false;
    for (int t = 1; t < kTiers; ++t)
      if (bytes_[t] >= 0 && label[bytes_[t]] > rule_.capacity[t]) return false;
    double p, q;
    if (keep_ == Keep::least_pq) {
      p = 0;
      q = static_cast<double>(label[forward_]);
    } else if (reduced_) {
      p = static_cast<double>(label[forward_]);
      q = backward_ >= 0 ? static_cast<double>(label[backward_]) : p * static_cast<double>(alpha_);
    } else {
      p = static_cast<double>(label[forward_] + label[backward_] + (weight_ >= 0 ? label[weight_] : 0));
      q = static_cast<double>(alpha_ * label[forward_] + beta_ * label[backward_]);
    }
    const double bytes = static_cast<double>(label[bytes_[0]]);
    const double* limit = limits.data() + (static_cast<size_t>(j) * cuts.width + state) * kinds;
    for (size_t m = 0; m < kinds; ++m)
      if (p + with_q[m] * q + lambda[m] * bytes > limit[m]) return false;
    return true;
  };
  // Appends base + the unit's row; the first unit of a run has no backlog before it.
  const auto push = [&](int u, int state, int option, int j, LabelParent from) {
    const int64_t* a = add(u, state, option);
    int64_t* label = row.data();
    for (int d = 0; d < sums_; ++d) label[d] = base[d] + a[d];
    if (transient_ >= 0) label[transient_] = std::max(base[transient_], a[sums_]);
    // backlog + update, were the update of the layers behind it the least there is
    if (drain_ >= 0)
      label[drain_] = std::max(base[drain_] - a[sums_ + 2], least_update_[end] - least_update_[u + 1]) + a[sums_ + 1];
    if (sync_ >= 0) {
      // Without a host link: the moment the gradient link is done, on the clock of the backward (dominance then sees
      // that a shorter backward with a longer backlog ends no later). With one: the backlog.
      if (chain_.has_host_link)
        label[sync_] = std::max<int64_t>(base[sync_] - a[sums_ + 2], 0) + a[sums_ + 1];
      else
        label[sync_] = std::max(base[sync_], label[chain_.split ? weight_ : backward_]) + a[sums_ + 1];
    }
    if (!survives(label, j, state)) return;
    x.insert(x.end(), label, label + dims_);
    parent.push_back({from.index, from.state, static_cast<int16_t>(option)});
  };

  for (int j = 0; j < length; ++j) {
    const int u = end - 1 - j, states = static_cast<int>(chain_.states[u].size());
    run.front.emplace_back(states);
    int64_t now = 0;
    for (int s = 0; s < states; ++s) {
      x.clear();
      parent.clear();
      const UnitState& state = chain_.states[u][s];
      const int options = static_cast<int>(state.options.size());
      if (j == 0) {
        if (exit >= 0 && s != exit) continue;
        std::fill(base.begin(), base.end(), 0);
        if (reduced_) {
          base[forward_] = first_backward_ * state.entry_backward;
          if (backward_ >= 0) base[backward_] = beta_ * state.entry_backward;
        } else {
          base[backward_] = state.entry_backward;
        }
        for (int o = 0; o < options; ++o) push(u, s, o, j, {});
      } else {
        for (int next = 0; next < static_cast<int>(run.front[j - 1].size()); ++next) {
          const Front& from = run.front[j - 1][next];
          if (from.size() == 0) continue;
          const EdgeCost& edge = chain_.within(u, s, next);
          for (int i = 0; i < from.size(); ++i) {
            std::copy_n(from.x.data() + static_cast<size_t>(i) * dims_, dims_, base.data());
            if (reduced_) {
              base[forward_] += first_forward_ * edge.forward + first_backward_ * edge.backward;
              if (backward_ >= 0) base[backward_] += alpha_ * edge.forward + beta_ * edge.backward;
            } else {
              base[forward_] += edge.forward;
              base[backward_] += edge.backward;
            }
            if (drain_ >= 0 && !chain_.split) base[drain_] -= edge.backward;
            if (!reduced_) {
              if (sync_ >= 0 && chain_.has_host_link && !chain_.split)
                base[sync_] = std::max<int64_t>(base[sync_] - edge.backward, 0);
            }
            for (int o = 0; o < options; ++o) push(u, s, o, j, {i, static_cast<int16_t>(next), 0});
          }
        }
      }
      filter(x, parent, run.front[j][s]);
      now += run.front[j][s].size();
      if (run.labels + now > most || budget.stopped()) {
        run.labels += now;
        run.too_many = true;
        return run;
      }
    }
    run.labels += now;
    if (now == 0) {
      run.front.pop_back();
      break;
    }
  }
  return run;
}

StageCost StageLabels::cost(const StageRun& run, int j, int state, int index) const {
  const int u = run.end - 1 - j;
  const UnitState& entry = chain_.states[u][state];
  const int64_t* x = run.front[j][state].x.data() + static_cast<size_t>(index) * dims_;
  const auto at = [&](int d) { return d >= 0 ? x[d] : 0; };
  StageCost c;
  c.begin = begin_ >= 0 ? x[begin_] : least_begin_[run.end] - least_begin_[u];
  if (reduced_) {
    c.p = c.r = x[forward_] + first_forward_ * entry.entry_forward;
    c.q = backward_ >= 0 ? x[backward_] + alpha_ * entry.entry_forward : alpha_ * c.p;
    c.f = least_forward_[run.end] - least_forward_[u];
    c.tail = at(drain_);
    return c;
  }
  const int64_t compute = x[backward_];
  c.f = std::max(x[forward_] + entry.entry_forward, at(host_forward_));
  c.b = std::max(compute, at(host_backward_));
  c.w = at(weight_);
  c.r = c.f + c.b;
  c.p = c.r + c.w;
  c.q = alpha_ * c.f + beta_ * c.b;
  const int64_t clock = chain_.split ? c.w : compute;
  const int64_t backlog = sync_ < 0 ? 0 : chain_.has_host_link ? x[sync_] : std::max<int64_t>(x[sync_] - clock, 0);
  c.tail = drain_ >= 0 ? x[drain_] : backlog + at(update_);
  return c;
}

std::vector<int> StageLabels::strategies(const StageRun& run, int j, int state, int index) const {
  std::vector<int> result;
  for (; j >= 0; --j) {
    const LabelParent& p = run.front[j][state].parent[index];
    result.push_back(chain_.states[run.end - 1 - j][state].options[p.option].strategy);
    state = p.state;
    index = p.index;
  }
  return result;
}

bool StageLabels::no_worse(const StageCost& a, const StageCost& b) const {
  if (keep_ == Keep::all) return false;
  if (reduced_) return a.p <= b.p && a.q <= b.q && a.tail <= b.tail;
  const bool tail =
      a.tail <= b.tail || (sync_ >= 0 && !chain_.has_host_link && !chain_.split && a.b + a.tail <= b.b + b.tail);
  return a.f <= b.f && a.b <= b.b && a.w <= b.w && tail && a.begin <= b.begin;
}

void StageLabels::filter(std::vector<int64_t>& x, std::vector<LabelParent>& parent, Front& front) const {
  const int n = static_cast<int>(parent.size());
  if (n == 0) return;
  if (keep_ == Keep::all) {
    front.x = x;
    front.parent = parent;
    return;
  }
  // The first number beside the index: most comparisons end there.
  std::vector<std::pair<int64_t, int>> keys(n);
  for (int i = 0; i < n; ++i) keys[i] = {x[static_cast<size_t>(i) * dims_], i};
  std::sort(keys.begin(), keys.end(), [&](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    const int64_t *l = x.data() + static_cast<size_t>(a.second) * dims_,
                  *r = x.data() + static_cast<size_t>(b.second) * dims_;
    for (int d = 1; d < dims_; ++d)
      if (l[d] != r[d]) return l[d] < r[d];
    return a.second < b.second;
  });
  std::vector<int> order(n), kept;
  for (int i = 0; i < n; ++i) order[i] = keys[i].second;
  if (dims_ == 2)
    filter_two(order, x, kept);
  else if (dims_ == 3)
    filter_three(order, x, kept);
  else
    filter_many(order, x, kept);
  front.x.reserve(kept.size() * dims_);
  for (const int i : kept) {
    const auto* row = x.data() + static_cast<size_t>(i) * dims_;
    front.x.insert(front.x.end(), row, row + dims_);
    front.parent.push_back(parent[i]);
  }
}

void StageLabels::filter_two(const std::vector<int>& order, const std::vector<int64_t>& x,
                             std::vector<int>& kept) const {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const int i : order) {
    if (x[2 * i + 1] >= least) continue;
    least = x[2 * i + 1];
    kept.push_back(i);
  }
}

// First number ascending; of the other two a staircase, second ascending and third descending.
void StageLabels::filter_three(const std::vector<int>& order, const std::vector<int64_t>& x,
                               std::vector<int>& kept) const {
  std::vector<std::pair<int64_t, int64_t>> stairs;
  for (const int i : order) {
    const int64_t second = x[3 * i + 1], third = x[3 * i + 2];
    auto at = std::upper_bound(stairs.begin(), stairs.end(), second,
                               [](int64_t v, const auto& step) { return v < step.first; });
    if (at != stairs.begin() && std::prev(at)->second <= third) continue;
    kept.push_back(i);
    if (at != stairs.begin() && std::prev(at)->first == second) --at;
    auto last = at;
    while (last != stairs.end() && last->second >= third) ++last;
    at = stairs.erase(at, last);
    stairs.insert(at, {second, third});
  }
}

void StageLabels::filter_many(const std::vector<int>& order, const std::vector<int64_t>& x,
                              std::vector<int>& kept) const {
  for (const int i : order) {
    const int64_t* candidate = x.data() + static_cast<size_t>(i) * dims_;
    const bool worse = std::any_of(kept.begin(), kept.end(), [&](int k) {
      const int64_t* row = x.data() + static_cast<size_t>(k) * dims_;
      for (int d = 1; d < dims_; ++d)
        if (row[d] > candidate[d]) return false;
      return true;
    });
    if (!worse) kept.push_back(i);
  }
}

}  // namespace tern
