#include "planner/instance/stage_labels_impl.h"

#include <algorithm>
#include <optional>

#include "planner/instance/row_front_impl.h"

namespace tern {
namespace {

constexpr size_t kNeighbours =
    4;                     // a state's labels are compared with those of this many others, the ones of least spread
constexpr int kLooks = 2;  // labels of another state that are compared with one, nearest in time first

// As much work as a label: comparisons of a front in many numbers count towards the limit of labels.
constexpr int64_t kComparisons = 64;

int64_t bytes_of(const Front& f) {
  return static_cast<int64_t>(f.x.size() * sizeof(int64_t) + f.parent.size() * sizeof(LabelParent));
}

}  // namespace

StageLabels::StageLabels(const Chain& chain, int stage, Keep keep)
    : chain_(chain), rule_(chain.rule[stage]), keep_(keep) {
  choose_places();
  sum_least();
  fill_adds();
  // Rows of sums that all ways on change alike, but for what resharding costs.
  if (reduced_ && drain_ < 0 && sync_ < 0 && keep != Keep::least_done) fill_spreads();
}

void StageLabels::choose_places() {
  const Chain& chain = chain_;
  const Keep keep = keep_;
  const bool simple = chain.kind == BoundKind::simple,
             least = keep == Keep::least || keep == Keep::least_work_and_rest || keep == Keep::least_done,
             bound = keep == Keep::bound;
  const bool tail = !simple && !least && chain.has_tail;
  // A lower bound of backlog and update in one number; chunks count the update alone.
  const bool drain = tail && bound && chain.kind != BoundKind::chunked;
  const bool host = chain.has_host_link && !least;
  reduced_ = least || (bound && !host && (simple || chain.kind == BoundKind::one_f_one_b));
  alpha_ = chain.micro - rule_.in_flight;
  beta_ = chain.micro - 1;
  if (keep == Keep::least_work_and_rest) first_forward_ = 1 + alpha_, first_backward_ = 1 + beta_;
  if (keep == Keep::least_done) first_forward_ = first_backward_ = first_weight_ = chain.micro;
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
}

void StageLabels::sum_least() {
  for (auto* sums : {&least_forward_, &least_update_, &least_begin_}) sums->assign(1, 0);
  for (const auto& states : chain_.states) {
    int64_t f = kNever, u = kNever, b = kNever;
    for (const UnitState& s : states)
      for (const OptionCost& c : s.options)
        f = std::min(f, c.forward), u = std::min(u, c.update), b = std::min(b, c.begin);
    least_forward_.push_back(least_forward_.back() + f);
    least_update_.push_back(least_update_.back() + u);
    least_begin_.push_back(least_begin_.back() + b);
  }
}

void StageLabels::fill_adds() {
  stride_ = sums_ + 3;
  offset_.resize(chain_.layers);
  for (int u = 0; u < chain_.layers; ++u) {
    if (chain_.form[u] != u) {
      offset_[u] = offset_[chain_.form[u]];
      continue;
    }
    for (const UnitState& state : chain_.states[u]) {
      offset_[u].push_back(adds_.size());
      for (const OptionCost& c : state.options) {
        const std::vector<int64_t> row = added_row(c);
        adds_.insert(adds_.end(), row.begin(), row.end());
      }
    }
  }
}

std::vector<int64_t> StageLabels::added_row(const OptionCost& c) const {
  std::vector<int64_t> row(stride_, 0);
  if (reduced_) {
    row[forward_] = first_forward_ * c.forward + first_backward_ * c.backward + first_weight_ * c.weight;
    if (keep_ == Keep::least_done) row[forward_] += c.sync + c.update - c.last_gradient;
    if (backward_ >= 0) row[backward_] = alpha_ * c.forward + beta_ * c.backward;
  } else {
    row[forward_] = c.forward;
    row[backward_] = c.backward;
  }
  const auto put = [&](int at, int64_t value) {
    if (at >= 0) row[at] = value;
  };
  put(weight_, c.weight);
  for (int t = 0; t < kTiers; ++t) put(bytes_[t], chain_.stage_bytes(c, rule_, t));
  put(host_forward_, c.host_forward);
  put(host_backward_, c.host_backward);
  put(update_, c.update);
  put(begin_, c.begin);
  row[sums_] = c.transient;
  row[sums_ + 1] = c.sync;
  row[sums_ + 2] = c.last_gradient;
  if (drain_ >= 0) row[sums_ + 1] += c.update;
  return row;
}

void StageLabels::fill_spreads() {
  spread_.resize(static_cast<size_t>(chain_.layers));
  for (int u = 0; u + 1 < chain_.layers; ++u) {
    const int n = static_cast<int>(chain_.states[u + 1].size());
    if (chain_.form[u] != u || n == 1) continue;
    spread_[u].resize(static_cast<size_t>(n));
    for (int a = 0; a < n; ++a) {
      std::vector<Spread>& least = spread_[u][a];
      for (int b = 0; b < n; ++b) {
        if (a == b) continue;
        Spread m{.state = b};
        for (int s = 0; s < static_cast<int>(chain_.states[u].size()); ++s) {
          const EdgeCost &x = chain_.within(u, s, a), &y = chain_.within(u, s, b);
          const int64_t forward = y.forward - x.forward, backward = y.backward - x.backward;
          m.forward = std::max(m.forward, first_forward_ * forward + first_backward_ * backward);
          m.backward = std::max(m.backward, alpha_ * forward + beta_ * backward);
        }
        least.push_back(m);
      }
      const size_t kept = std::min<size_t>(kNeighbours, least.size());
      std::partial_sort(least.begin(), least.begin() + static_cast<std::ptrdiff_t>(kept), least.end(),
                        [](const Spread& x, const Spread& y) {
                          return std::pair(x.forward, x.state) < std::pair(y.forward, y.state);
                        });
      least.resize(kept);
    }
  }
}

// Only labels that are not idle themselves make others idle, so each idle one has a label in its place.
void StageLabels::mark_idle(int u, const std::vector<Front>& fronts, std::vector<std::vector<char>>& idle) const {
  const size_t n = fronts.size();
  idle.assign(n, {});
  for (size_t a = 0; a < n; ++a) idle[a].assign(fronts[a].parent.size(), 0);
  for (size_t a = 0; a < n; ++a)
    for (const Spread& more : spread_[chain_.form[u]][a]) {
      const int b = more.state;
      if (fronts[a].size() == 0 || fronts[b].size() == 0) continue;
      int at = 0;  // labels of b that are early enough
      for (int i = 0; i < fronts[a].size(); ++i) {
        if (idle[a][i]) continue;
        const int64_t* x = fronts[a].x.data() + static_cast<size_t>(i) * dims_;
        while (at < fronts[b].size() && fronts[b].x[static_cast<size_t>(at) * dims_] + more.forward <= x[0]) ++at;
        for (int k = at - 1; k >= std::max(0, at - kLooks) && !idle[a][i]; --k) {
          if (idle[b][k]) continue;
          const int64_t* y = fronts[b].x.data() + static_cast<size_t>(k) * dims_;
          bool no_worse = true;
          for (int d = 1; d < dims_ && no_worse; ++d) no_worse = y[d] + (d == backward_ ? more.backward : 0) <= x[d];
          idle[a][i] = no_worse;
        }
      }
    }
}

const int64_t* StageLabels::add(int u, int state, int option) const {
  return adds_.data() + offset_[u][state] + static_cast<size_t>(option) * stride_;
}

// Grows the labels of one end of a stage, layer by layer to the left: `base`, a label and the edge to it, becomes one
// label more with each option of the next layer, if the cuts leave it.
struct StageLabels::Growth {
  const StageLabels& in;
  const int end;
  std::vector<int64_t> base = std::vector<int64_t>(in.dims_), row = base;
  std::vector<int64_t> x;           // the labels of one state that are left
  std::vector<LabelParent> parent;  // of each
  // The cuts side by side for each layer and state, the strongest (lambdas in the middle) first.
  std::optional<CutOn> one;  // rows that know one number only
  int width = 1;
  std::vector<int> on;
  std::vector<double> lambda, limits;

  Growth(const StageLabels& labels, int end_layer, int length, const Cuts& cuts)
      : in(labels), end(end_layer), width(cuts.width) {
    if (in.keep_ == Keep::least) one = CutOn::work;
    if (in.keep_ == Keep::least_work_and_rest) one = CutOn::work_and_rest;
    if (in.keep_ == Keep::least_done) one = CutOn::done;
    std::vector<const Cut*> used;
    for (const Cut& c : cuts.cuts)
      if (!one || c.on == *one) used.push_back(&c);
    std::rotate(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(used.size() / 2), used.end());
    const size_t kinds = used.size();
    on.resize(kinds), lambda.resize(kinds), limits.resize(static_cast<size_t>(length) * width * kinds);
    for (size_t m = 0; m < kinds; ++m) {
      lambda[m] = used[m]->lambda;
      on[m] = static_cast<int>(used[m]->on);
      for (size_t i = 0; i < used[m]->limit.size(); ++i) limits[i * kinds + m] = used[m]->limit[i];
    }
  }

  void clear() { x.clear(), parent.clear(); }
  int64_t bytes() const {
    return static_cast<int64_t>(x.size() * sizeof(int64_t) + parent.size() * sizeof(LabelParent));
  }

  bool survives(const int64_t* label, int j, int state) const {
    const StageLabels& l = in;
    int64_t device = label[l.bytes_[0]] + (l.transient_ >= 0 ? label[l.transient_] : 0);
    if (device > l.rule_.capacity[0]) return false;
    for (int t = 1; t < kTiers; ++t)
      if (l.bytes_[t] >= 0 && label[l.bytes_[t]] > l.rule_.capacity[t]) return false;
    double time[3] = {};  // by CutOn
    const auto d = [](int64_t t) { return static_cast<double>(t); };
    if (one) {
      time[static_cast<int>(*one)] = d(label[l.forward_]);
    } else if (l.reduced_) {
      time[0] = d(label[l.forward_]);
      time[1] = time[0] + (l.backward_ >= 0 ? d(label[l.backward_]) : time[0] * d(l.alpha_));
      if (l.drain_ >= 0) time[2] = d(l.chain_.micro) * time[0] + d(label[l.drain_]);
    } else {
      time[0] = d(label[l.forward_] + label[l.backward_] + (l.weight_ >= 0 ? label[l.weight_] : 0));
      time[1] = time[0] + d(l.alpha_ * label[l.forward_] + l.beta_ * label[l.backward_]);
      int64_t tail = l.drain_ >= 0 ? label[l.drain_] : 0;
      if (l.sync_ >= 0)
        tail = (l.chain_.has_host_link
                    ? label[l.sync_]
                    : std::max<int64_t>(label[l.sync_] - label[l.chain_.split ? l.weight_ : l.backward_], 0)) +
               label[l.update_];
      time[2] = d(l.chain_.micro) * time[0] + d(tail);
    }
    const size_t kinds = on.size();
    const double bytes = static_cast<double>(label[l.bytes_[0]]);
    const double* limit = limits.data() + (static_cast<size_t>(j) * width + state) * kinds;
    for (size_t m = 0; m < kinds; ++m)
      if (time[on[m]] + lambda[m] * bytes > limit[m]) return false;
    return true;
  }

  // Appends base + the unit's row; the first unit of a run has no backlog before it.
  void push(int u, int state, int option, int j, LabelParent from) {
    const StageLabels& l = in;
    const int64_t* a = l.add(u, state, option);
    int64_t* label = row.data();
    for (int d = 0; d < l.sums_; ++d) label[d] = base[d] + a[d];
    if (l.keep_ == Keep::least_done && j == 0) label[l.forward_] += a[l.sums_ + 2];  // no backlog yet to drain
    if (l.transient_ >= 0) label[l.transient_] = std::max(base[l.transient_], a[l.sums_]);
    // backlog + update, were the update of the layers behind it the least there is
    if (l.drain_ >= 0)
      label[l.drain_] =
          std::max(base[l.drain_] - a[l.sums_ + 2], l.least_update_[end] - l.least_update_[u + 1]) + a[l.sums_ + 1];
    if (l.sync_ >= 0) {
      // Without a host link: the moment the gradient link is done, on the clock of the backward (dominance then sees
      // that a shorter backward with a longer backlog ends no later). With one: the backlog.
      if (l.chain_.has_host_link)
        label[l.sync_] = std::max<int64_t>(base[l.sync_] - a[l.sums_ + 2], 0) + a[l.sums_ + 1];
      else
        label[l.sync_] = std::max(base[l.sync_], label[l.chain_.split ? l.weight_ : l.backward_]) + a[l.sums_ + 1];
    }
    if (!survives(label, j, state)) return;
    x.insert(x.end(), label, label + l.dims_);
    parent.push_back({from.index, from.state, static_cast<int16_t>(option)});
  }

  // base: the empty stage that ends with this state.
  void start(const UnitState& state) {
    std::fill(base.begin(), base.end(), 0);
    if (in.reduced_) {
      base[in.forward_] = in.first_backward_ * state.entry_backward;
      if (in.backward_ >= 0) base[in.backward_] = in.beta_ * state.entry_backward;
    } else {
      base[in.backward_] = state.entry_backward;
    }
  }

  // base: a label of the layer to the right, with the edge to it.
  void cross(const int64_t* label, const EdgeCost& edge) {
    const StageLabels& l = in;
    std::copy_n(label, l.dims_, base.data());
    if (l.reduced_) {
      base[l.forward_] += l.first_forward_ * edge.forward + l.first_backward_ * edge.backward;
      if (l.keep_ == Keep::least_done && !l.chain_.split) base[l.forward_] -= edge.backward;
      if (l.backward_ >= 0) base[l.backward_] += l.alpha_ * edge.forward + l.beta_ * edge.backward;
    } else {
      base[l.forward_] += edge.forward;
      base[l.backward_] += edge.backward;
    }
    if (l.drain_ >= 0 && !l.chain_.split) base[l.drain_] -= edge.backward;
    if (!l.reduced_ && l.sync_ >= 0 && l.chain_.has_host_link && !l.chain_.split)
      base[l.sync_] = std::max<int64_t>(base[l.sync_] - edge.backward, 0);
  }
};

StageRun StageLabels::run(int end, int exit, int length, const Cuts& cuts, int64_t most, const Budget& budget) const {
  StageRun run{.end = end, .exit = exit, .front = {}};
  Growth grown(*this, end, length, cuts);
  int64_t comparisons = 0, bytes = 0;
  std::vector<std::vector<char>> idle;
  for (int j = 0; j < length; ++j) {
    const int u = end - 1 - j, states = static_cast<int>(chain_.states[u].size());
    run.front.emplace_back(states);
    const bool some_idle = j > 0 && !spread_.empty() && run.front[j - 1].size() > 1;
    if (some_idle) mark_idle(u, run.front[j - 1], idle);
    int64_t now = 0;
    for (int s = 0; s < states; ++s) {
      grown.clear();
      const UnitState& state = chain_.states[u][s];
      if (!rule_.takes(state) || (j == 0 && exit >= 0 && s != exit)) continue;
      const int options = static_cast<int>(state.options.size());
      if (j == 0) {
        grown.start(state);
        for (int o = 0; o < options; ++o) grown.push(u, s, o, j, {});
      }
      for (int next = 0; j > 0 && next < static_cast<int>(run.front[j - 1].size()); ++next) {
        const Front& from = run.front[j - 1][next];
        if (from.size() == 0) continue;
        const EdgeCost& edge = chain_.within(u, s, next);
        for (int i = 0; i < from.size(); ++i) {
          if (some_idle && idle[next][i]) continue;
          grown.cross(from.x.data() + static_cast<size_t>(i) * dims_, edge);
          for (int o = 0; o < options; ++o) grown.push(u, s, o, j, {i, static_cast<int16_t>(next), 0});
        }
      }
      bytes += grown.bytes();  // before the filter; then what it left
      const bool full = bytes > budget.bytes;
      bytes -= grown.bytes();
      if (!full) comparisons += filter(grown.x, grown.parent, run.front[j][s]);
      now += run.front[j][s].size();
      bytes += bytes_of(run.front[j][s]);
      if (full || run.labels + now + comparisons / kComparisons > most || budget.stopped()) {
        run.labels += now + comparisons / kComparisons;
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
  run.labels += comparisons / kComparisons;
  return run;
}

int64_t StageRun::bytes() const {
  int64_t sum = 0;
  for (const auto& layer : front)
    for (const Front& f : layer) sum += bytes_of(f);
  return sum;
}

StageCost StageLabels::cost(const StageRun& run, int j, int state, int index) const {
  const int u = run.end - 1 - j;
  const UnitState& entry = chain_.states[u][state];
  const int64_t* x = run.front[j][state].x.data() + static_cast<size_t>(index) * dims_;
  const auto at = [&](int d) { return d >= 0 ? x[d] : 0; };
  StageCost c;
  c.begin = begin_ >= 0 ? x[begin_] : least_begin_[run.end] - least_begin_[u];
  if (reduced_) {
    c.work = c.pass = x[forward_] + first_forward_ * entry.entry_forward;
    c.rest = backward_ >= 0 ? x[backward_] + alpha_ * entry.entry_forward : alpha_ * c.work;
    c.forward = least_forward_[run.end] - least_forward_[u];
    c.tail = at(drain_);
    c.done = chain_.micro * c.work + c.tail;
    return c;
  }
  const int64_t compute = x[backward_];
  c.forward = std::max(x[forward_] + entry.entry_forward, at(host_forward_));
  c.backward = std::max(compute, at(host_backward_));
  c.weight = at(weight_);
  c.pass = c.forward + c.backward;
  c.work = c.pass + c.weight;
  c.rest = alpha_ * c.forward + beta_ * c.backward;
  const int64_t clock = chain_.split ? c.weight : compute;
  const int64_t backlog = sync_ < 0 ? 0 : chain_.has_host_link ? x[sync_] : std::max<int64_t>(x[sync_] - clock, 0);
  c.tail = drain_ >= 0 ? x[drain_] : backlog + at(update_);
  c.done = chain_.micro * c.work + c.tail;
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
  if (reduced_) return a.work <= b.work && a.rest <= b.rest && a.tail <= b.tail;
  const bool tail = a.tail <= b.tail || (sync_ >= 0 && !chain_.has_host_link && !chain_.split &&
                                         a.backward + a.tail <= b.backward + b.tail);
  return a.forward <= b.forward && a.backward <= b.backward && a.weight <= b.weight && tail && a.begin <= b.begin;
}

int64_t StageLabels::filter(std::vector<int64_t>& x, std::vector<LabelParent>& parent, Front& front) const {
  const int n = static_cast<int>(parent.size());
  if (n == 0) return 0;
  if (keep_ == Keep::all) {
    front.x = x;
    front.parent = parent;
    return 0;
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
  int64_t comparisons = 0;
  if (dims_ == 2)
    filter_two(order, x, kept);
  else if (dims_ == 3)
    filter_three(order, x, kept);
  else
    comparisons = filter_many(order, x, kept);
  front.x.reserve(kept.size() * dims_);
  for (const int i : kept) {
    const auto* row = x.data() + static_cast<size_t>(i) * dims_;
    front.x.insert(front.x.end(), row, row + dims_);
    front.parent.push_back(parent[i]);
  }
  return comparisons;
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

int64_t StageLabels::filter_many(const std::vector<int>& order, const std::vector<int64_t>& x,
                                 std::vector<int>& kept) const {
  RowFront front(dims_ - 1);  // the first number ascends
  for (const int i : order) {
    const int64_t* candidate = x.data() + static_cast<size_t>(i) * dims_ + 1;
    if (front.covers(candidate)) continue;
    front.push(candidate);
    kept.push_back(i);
  }
  return front.compared();
}

}  // namespace tern
