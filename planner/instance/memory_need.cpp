#include <algorithm>

#include "planner/instance/enumerate_impl.h"
#include "planner/instance/memory_need_impl.h"

namespace tern {
namespace {

// A stage's bytes over some layers: per tier, and the largest transient. No number worse is better.
struct Bytes {
  TierBytes tier{};
  int64_t transient = 0;
  std::vector<int> strategies;  // last layer first
};

bool no_worse(const Bytes& a, const Bytes& b) {
  for (int t = 0; t < kTiers; ++t)
    if (a.tier[t] > b.tier[t]) return false;
  return a.transient <= b.transient;
}

int64_t excess(const Bytes& b, const StageRule& rule, Tier* where) {
  int64_t most = std::numeric_limits<int64_t>::min();
  for (int t = 0; t < kTiers; ++t) {
    const int64_t x = b.tier[t] + (t == 0 ? b.transient : 0) - rule.capacity[t];
    if (x <= most) continue;
    most = x;
    if (where) *where = static_cast<Tier>(t);
  }
  return most;
}

void keep_best(std::vector<Bytes>& all) {
  std::stable_sort(all.begin(), all.end(), [](const Bytes& a, const Bytes& b) {
    return std::tie(a.tier, a.transient) < std::tie(b.tier, b.transient);
  });
  std::vector<Bytes> kept;
  for (Bytes& x : all)
    if (std::none_of(kept.begin(), kept.end(), [&](const Bytes& o) { return no_worse(o, x); }))
      kept.push_back(std::move(x));
  all.swap(kept);
}

struct Best {
  int64_t missing = kNever;  // the largest excess of this stage and those after it
  int stage = 0;
  Tier tier = Tier::device;
  int end = 0;
};

// The options of each layer that matter for memory.
std::vector<std::vector<Bytes>> options_of(const Chain& chain, const StageRule& rule) {
  std::vector<std::vector<Bytes>> option(chain.layers);
  for (int u = 0; u < chain.layers; ++u) {
    if (chain.form[u] != u) {
      option[u] = option[chain.form[u]];
      continue;
    }
    for (const UnitState& s : chain.states[u])
      for (const OptionCost& c : s.options) {
        if (!rule.takes(s)) continue;
        Bytes b{.transient = c.transient, .strategies = {c.strategy}};
        for (int t = 0; t < kTiers; ++t) b.tier[t] = chain.stage_bytes(c, rule, t);
        option[u].push_back(std::move(b));
      }
    // No strategy for such devices: more than any capacity.
    if (option[u].empty()) option[u].push_back({.tier = {kNever / (chain.layers + 1)}, .strategies = {0}});
    keep_best(option[u]);
  }
  return option;
}

std::vector<Bytes> prepend(const std::vector<Bytes>& now, const std::vector<Bytes>& option) {
  std::vector<Bytes> longer;
  for (const Bytes& x : now)
    for (const Bytes& o : option) {
      Bytes b = x;
      for (int t = 0; t < kTiers; ++t) b.tier[t] += o.tier[t];
      b.transient = std::max(b.transient, o.transient);
      b.strategies.push_back(o.strategies[0]);
      longer.push_back(std::move(b));
    }
  keep_best(longer);
  return longer;
}

const Bytes& least_excess(const std::vector<Bytes>& all, const StageRule& rule) {
  return *std::min_element(all.begin(), all.end(), [&](const Bytes& a, const Bytes& b) {
    return excess(a, rule, nullptr) < excess(b, rule, nullptr);
  });
}

// With the device tier alone: for each cap on the transient, prefix sums of the least bytes under it.
class DeviceNeed {
 public:
  DeviceNeed(const Chain& chain, const StageRule& rule, const std::vector<std::vector<Bytes>>& option) : rule_(rule) {
    for (const auto& all : option)
      for (const Bytes& b : all) caps_.push_back(b.transient);
    std::sort(caps_.begin(), caps_.end());
    caps_.erase(std::unique(caps_.begin(), caps_.end()), caps_.end());
    for (const int64_t cap : caps_) {
      auto& sums = sums_.emplace_back(1, 0);
      for (int u = 0; u < chain.layers; ++u) {
        int64_t least = kNever / (chain.layers + 1);  // no option: more than any capacity
        for (const Bytes& b : option[u])
          if (b.transient <= cap) least = std::min(least, b.tier[0]);
        sums.push_back(sums.back() + least);
      }
    }
  }
  int64_t operator()(int a, int e) const {
    int64_t least = kNever;
    for (size_t i = 0; i < caps_.size(); ++i) least = std::min(least, sums_[i][e] - sums_[i][a] + caps_[i]);
    return least - rule_.capacity[0];
  }

 private:
  const StageRule& rule_;
  std::vector<int64_t> caps_;
  std::vector<std::vector<int64_t>> sums_;
};

class Need {
 public:
  Need(const Chain& chain, const Budget& budget)
      : chain_(chain), budget_(budget), best_(chain.stages + 1, std::vector<Best>(chain.layers + 1)) {
    best_[chain.stages][chain.layers].missing = std::numeric_limits<int64_t>::min();
  }

  MemoryNeed run() {
    const bool device_alone = !chain_.has_tier[1] && !chain_.has_tier[2];
    for (int i = chain_.stages - 1; i >= 0; --i) {
      const auto option = options_of(chain_, chain_.rule[i]);
      if (device_alone)
        fill_device(i, DeviceNeed(chain_, chain_.rule[i], option));
      else
        fill_tiers(i, option);
      if (!device_alone && budget_.stopped()) return {};
    }
    const Best& first = best_[0][0];
    MemoryNeed need{.missing = first.missing, .stage = first.stage, .tier = first.tier, .assignment = {}};
    for (int i = 0, a = 0; i < chain_.stages; ++i) {
      const auto option = options_of(chain_, chain_.rule[i]);
      const int e = best_[i][a].end;
      std::vector<Bytes> now{Bytes{}};
      for (int u = e - 1; u >= a; --u) now = prepend(now, option[u]);
      const auto& chosen = least_excess(now, chain_.rule[i]).strategies;
      need.assignment.strategy.insert(need.assignment.strategy.end(), chosen.rbegin(), chosen.rend());
      need.assignment.stage.insert(need.assignment.stage.end(), chosen.size(), i);
      a = e;
    }
    return need;
  }

 private:
  void offer(int i, int a, int e, int64_t over, Tier tier) {
    const Best& after = best_[i + 1][e];
    Best& here = best_[i][a];
    const int64_t missing = std::max(over, after.missing);
    if (missing >= here.missing) return;
    here = over >= after.missing ? Best{missing, i, tier, e} : Best{missing, after.stage, after.tier, e};
  }

  // A stage's need grows with its end, that of the stages after it falls: the best end is where they cross.
  void fill_device(int i, const DeviceNeed& need) {
    const int last_end = chain_.layers - (chain_.stages - 1 - i);
    for (int a = i; a < last_end; ++a) {
      if (i + 1 == chain_.stages) {
        offer(i, a, chain_.layers, need(a, chain_.layers), Tier::device);
        continue;
      }
      int low = a + 1, high = last_end;  // the first end at which the stage needs at least as much as those after it
      while (low < high) {
        const int middle = (low + high) / 2;
        if (need(a, middle) >= best_[i + 1][middle].missing)
          high = middle;
        else
          low = middle + 1;
      }
      for (const int e : {low - 1, low})
        if (e > a && e <= last_end) offer(i, a, e, need(a, e), Tier::device);
    }
  }

  void fill_tiers(int i, const std::vector<std::vector<Bytes>>& option) {
    const StageRule& rule = chain_.rule[i];
    for (int e = chain_.layers - (chain_.stages - 1 - i); e > i; --e) {
      if (budget_.stopped()) return;
      if (best_[i + 1][e].missing == kNever) continue;
      std::vector<Bytes> now{Bytes{}};
      for (int a = e - 1; a >= i; --a) {
        now = prepend(now, option[a]);
        Tier tier = Tier::device;
        const int64_t over = excess(least_excess(now, rule), rule, &tier);
        offer(i, a, e, over, tier);
      }
    }
  }

  const Chain& chain_;
  const Budget& budget_;
  std::vector<std::vector<Best>> best_;
};

}  // namespace

// A dynamic programme over (stage, first layer), from the last stage, on the largest excess. Resharding costs no
// memory, so strategies of different layers do not see each other.
MemoryNeed memory_need(const Chain& chain, const Budget& budget) { return Need(chain, budget).run(); }

}  // namespace tern
