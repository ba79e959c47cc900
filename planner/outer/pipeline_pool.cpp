#include "planner/outer/pipeline_pool.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace tern {
namespace {

class Pool {
 public:
  Pool(const PoolProblem& problem, int64_t upper_bound, const std::function<bool()>& late)
      : p_(problem), late_(late), upper_(upper_bound) {
    double states = p_.pipelines;
    for (const int n : p_.devices) states *= n + 1;
    if (states > 1e6 || p_.num_micro < 1 || p_.pipelines < 1)
      throw Error(ErrorKind::usage, "share_pool: {} pipelines of {} micro-batches, {} states; at most a million",
                  p_.pipelines, p_.num_micro, states);
    std::vector<int> uses(p_.devices.size(), 0);
    do { states_.push_back(uses); } while (next(uses));
    value_.resize(states_.size());
    for (size_t u = 1; u < states_.size(); ++u) {
      value_[u].assign(static_cast<size_t>(p_.num_micro) + 1, {});
      for (int m = 1; m <= p_.num_micro; ++m) raise(u, m, p_.bound(states_[u], m));
    }
  }

  PoolAnswer run() {
    answer_.columns = static_cast<int64_t>(states_.size() - 1) * p_.num_micro;
    for (;;) {
      answer_.bound = std::max(answer_.bound, least_limit());
      if (answer_.bound >= upper_) break;
      const std::vector<Column> columns = cover(answer_.bound);
      bool fresh = false;
      for (const Column& c : columns) {
        if (value_[c.uses][static_cast<size_t>(c.micro)].solved) continue;
        if (late_()) return answer_;
        fresh = true;
        solve(c);
      }
      offer(columns);
      if (!fresh) break;  // searched, and no better bound of them is known
    }
    answer_.bound = std::min(answer_.bound, answer_.found ? answer_.makespan : kNever);
    return answer_;
  }

 private:
  struct Value {
    int64_t bound = 0, makespan = kNever;
    bool solved = false;
  };
  struct Column {
    size_t uses;
    int micro;
  };

  // Counts of used devices, the first type fastest.
  bool next(std::vector<int>& uses) const {
    for (size_t t = 0; t < uses.size(); ++t) {
      if (++uses[t] <= p_.devices[t]) return true;
      uses[t] = 0;
    }
    return false;
  }
  // More micro-batches take no less.
  void raise(size_t u, int m, int64_t bound) {
    for (int more = m; more <= p_.num_micro; ++more) {
      int64_t& b = value_[u][static_cast<size_t>(more)].bound;
      if (b >= bound) return;
      b = bound;
    }
  }
  void solve(const Column& c) {
    Value& v = value_[c.uses][static_cast<size_t>(c.micro)];
    const PoolProblem::Solved s = p_.solve(states_[c.uses], c.micro);
    ++answer_.searched;
    v.solved = true, v.makespan = s.makespan;
    raise(c.uses, c.micro, s.bound);
  }
  // Most micro-batches of a column within `limit`; 0: none.
  int most(size_t u, int64_t limit) const {
    const auto& row = value_[u];
    const auto above = std::upper_bound(row.begin() + 1, row.end(), limit,
                                        [](int64_t value, const Value& v) { return value < v.bound; });
    return static_cast<int>(above - row.begin()) - 1;
  }

  // By number of pipelines and used devices (at most) the most micro-batches within `limit`, and the last column.
  bool fill(int64_t limit) {
    const size_t n = states_.size();
    std::vector<int> cap(n, 0);
    for (size_t u = 1; u < n; ++u) cap[u] = most(u, limit);
    done_.assign((static_cast<size_t>(p_.pipelines) + 1) * n, -1);
    last_.assign(done_.size(), 0);
    std::fill(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(n), 0);
    for (size_t r = 1; r <= static_cast<size_t>(p_.pipelines); ++r)
      for (size_t s = 0; s < n; ++s)
        for (size_t u = 1; u <= s; ++u) {
          if (cap[u] == 0 || !within(u, s)) continue;
          const int before = done_[(r - 1) * n + s - u];  // mixed radix: differences of states are states
          if (before >= 0 && before + cap[u] > done_[r * n + s])
            done_[r * n + s] = before + cap[u], last_[r * n + s] = u;
        }
    cap_ = std::move(cap);
    return done_.back() >= p_.num_micro;
  }
  bool within(size_t u, size_t s) const {
    for (size_t t = 0; t < p_.devices.size(); ++t)
      if (states_[u][t] > states_[s][t]) return false;
    return true;
  }

  // The least limit within which columns cover all micro-batches.
  int64_t least_limit() {
    int64_t high = upper_ < kNever ? upper_ : 0;
    if (upper_ == kNever)
      for (size_t u = 1; u < value_.size(); ++u)
        for (const Value& v : value_[u])
          if (v.bound < kNever) high = std::max(high, v.bound);
    if (!fill(high)) return upper_ < kNever ? upper_ : kNever;
    int64_t low = -1;
    while (high - low > 1) {
      const int64_t middle = low + (high - low) / 2;
      (fill(middle) ? high : low) = middle;
    }
    return high;
  }

  // Such columns; what they could do too much is taken from the slowest.
  std::vector<Column> cover(int64_t limit) {
    TERN_CHECK(fill(limit), "share_pool: no columns within {}", limit);
    const size_t n = states_.size();
    std::vector<Column> columns;
    size_t s = n - 1;
    for (size_t r = static_cast<size_t>(p_.pipelines); r > 0; --r) {
      const size_t u = last_[r * n + s];
      columns.push_back({u, cap_[u]});
      s -= u;
    }
    int surplus = -p_.num_micro;
    for (const Column& c : columns) surplus += c.micro;
    while (surplus-- > 0) {
      Column* slowest = nullptr;
      for (Column& c : columns)
        if (c.micro > 1 && (!slowest || bound_of(c) > bound_of(*slowest))) slowest = &c;
      --slowest->micro;
    }
    return columns;
  }
  int64_t bound_of(const Column& c) const { return value_[c.uses][static_cast<size_t>(c.micro)].bound; }

  void offer(const std::vector<Column>& columns) {
    PoolAnswer plan;
    for (const Column& c : columns) {
      const Value& v = value_[c.uses][static_cast<size_t>(c.micro)];
      if (!v.solved || v.makespan == kNever) return;
      plan.pipelines.push_back({states_[c.uses], c.micro, v.makespan});
      plan.makespan = std::max(plan.makespan, v.makespan);
    }
    if (plan.makespan >= upper_) return;
    std::sort(plan.pipelines.begin(), plan.pipelines.end(), [](const PoolPipeline& a, const PoolPipeline& b) {
      return std::pair(-a.makespan, a.uses) < std::pair(-b.makespan, b.uses);
    });
    answer_.found = true, answer_.makespan = upper_ = plan.makespan;
    answer_.pipelines = std::move(plan.pipelines);
  }

  const PoolProblem& p_;
  const std::function<bool()>& late_;
  int64_t upper_;
  std::vector<std::vector<int>> states_;
  std::vector<std::vector<Value>> value_;  // by state and micro-batches, rising bounds
  std::vector<int> done_, cap_;
  std::vector<size_t> last_;
  PoolAnswer answer_;
};

}  // namespace

PoolAnswer share_pool(const PoolProblem& problem, int64_t upper_bound, const std::function<bool()>& late) {
  return Pool(problem, upper_bound, late).run();
}

}  // namespace tern
