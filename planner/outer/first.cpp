// First plans of an outer choice: upper bounds that cost a few simulations.
#include <algorithm>
#include <numeric>

#include "plan/legality.h"
#include "planner/instance/price.h"
#include "planner/outer/build_instance_impl.h"
#include "planner/outer/first_plans_impl.h"

namespace tern {
namespace {

constexpr int kMostRepairs = 40;

// Of one kind of layer: strategies from the fastest to the smallest, none better in both.
struct Ladder {
  std::vector<int> strategy;
};
double time_of(const CostVector& v, double micro) {
  return micro * static_cast<double>(v.forward + gradient_ps(v)) + static_cast<double>(v.begin + v.sync + v.update);
}
Ladder ladder_of(const std::vector<CostVector>& rows, double micro, double in_flight) {
  std::vector<int> order(rows.size());
  std::iota(order.begin(), order.end(), 0);
  const auto bytes = [&](int k) {
    const CostVector& v = rows[static_cast<size_t>(k)];
    return static_cast<double>(v.persistent[0] + v.transient) + in_flight * static_cast<double>(v.held[0]);
  };
  const auto time = [&](int k) { return time_of(rows[static_cast<size_t>(k)], micro); };
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return std::tuple(time(a), bytes(a), a) < std::tuple(time(b), bytes(b), b); });
  Ladder ladder;
  for (const int k : order)
    if (ladder.strategy.empty() || bytes(k) < bytes(ladder.strategy.back())) ladder.strategy.push_back(k);
  return ladder;
}

// Layers per virtual stage: `of_chunk` on each stage of a chunk; what that is too many is taken from the last stages of
// the fullest chunk, which begin last.
std::vector<int> sizes_of(std::vector<int> of_chunk, int devices, int layers) {
  std::vector<int> sizes;
  for (const int n : of_chunk) sizes.insert(sizes.end(), static_cast<size_t>(devices), n);
  int surplus = std::accumulate(sizes.begin(), sizes.end(), 0) - layers;
  const size_t full = static_cast<size_t>(std::max_element(of_chunk.begin(), of_chunk.end()) - of_chunk.begin());
  for (int d = devices - 1; surplus > 0; d = d == 0 ? devices - 1 : d - 1, --surplus)
    --sizes[full * static_cast<size_t>(devices) + static_cast<size_t>(d)];
  return sizes;
}

// Ways to cut layers into the stages of a choice with several chunks to a stage, every chunk with equal stages.
std::vector<std::vector<int>> splits_of(const Candidate& c, int layers) {
  std::vector<std::vector<int>> splits;
  const int per_device = (layers + c.num_stages - 1) / c.num_stages, v = c.chunks;
  if (v == 1 || per_device < v) return splits;
  const bool v_shape = is_v_shaped(static_cast<PipelineSchedule>(c.schedule));
  std::vector<std::vector<int>> chunks;
  if (v_shape) {
    for (int first = 1; first < per_device; ++first) chunks.push_back({first, per_device - first});
    std::sort(chunks.begin(), chunks.end(),
              [](const auto& a, const auto& b) { return std::abs(a[0] - a[1]) < std::abs(b[0] - b[1]); });
    if (chunks.size() > 3) chunks.resize(3);
  } else {
    std::vector<int> even(static_cast<size_t>(v), per_device / v);
    for (int i = 0; i < per_device % v; ++i) ++even[static_cast<size_t>(v - 1 - i)];
    chunks.push_back(even);
    std::reverse(even.begin(), even.end());
    if (even != chunks.front()) chunks.push_back(even);
  }
  for (const auto& of_chunk : chunks) {
    std::vector<int> sizes = sizes_of(of_chunk, c.num_stages, layers);
    if (*std::min_element(sizes.begin(), sizes.end()) >= 1) splits.push_back(std::move(sizes));
  }
  return splits;
}

// All layers of device d are as small as they can be: its stage gives one to the neighbour with more room.
bool hand_over(Assignment& a, std::vector<std::vector<int>>& of_device, size_t d, const Priced& priced,
               const std::vector<TierBytes>& capacity) {
  const auto room = [&](size_t other) { return capacity[other][0] - priced.peak[other][0]; };
  const bool left = d > 0, right = d + 1 < of_device.size();
  if (of_device[d].size() < 2 || (!left && !right)) return false;
  const size_t to = !right || (left && room(d - 1) > room(d + 1)) ? d - 1 : d + 1;
  if (room(to) <= 0) return false;
  auto &from = of_device[d], &list = of_device[to];
  const auto at = to < d ? from.begin() : from.end() - 1;
  a.stage[static_cast<size_t>(*at)] = static_cast<int>(to);
  list.insert(to < d ? list.end() : list.begin(), *at);
  from.erase(at);
  return true;
}

std::vector<int> even_split(const SpaceOfChoices& space, const std::vector<const CostVector*>& rows, int V) {
  const int L = static_cast<int>(space.layers.size());
  std::vector<int64_t> until{0};  // compute before each layer
  for (const CostVector* v : rows) until.push_back(until.back() + v->forward + gradient_ps(*v));
  std::vector<int> stages;
  for (int u = 0, stage = 0; u < L; ++u) {
    // The middle of the layer lies in stage ⌊V·middle / total⌋; none is left empty.
    const double middle = 0.5 * static_cast<double>(until[static_cast<size_t>(u)] + until[static_cast<size_t>(u) + 1]);
    const int wanted = static_cast<int>(V * middle / static_cast<double>(std::max<int64_t>(1, until.back())));
    if (u > 0) stage = std::clamp(wanted, stage, stage + 1);
    stage = std::max(stage, V - (L - u));
    stages.push_back(stage);
  }
  return stages;
}

// The kind with most layers names the strategies that are tried everywhere.
const std::vector<LayerStrategy>& strategies_of(const ChoiceTables& t, int form) {
  const auto widest = std::max_element(t.kinds.begin(), t.kinds.end(),
                                       [](const auto& a, const auto& b) { return a.layers < b.layers; });
  return widest->strategy[form];
}

// The row of a kind of layer for this strategy; where it is dominated, the nearest that is as sharded.
size_t row_of(const ChoiceTables::Rows& rows, int form, const LayerStrategy& s) {
  const auto& list = rows.strategy[form];
  const size_t k = static_cast<size_t>(std::find(list.begin(), list.end(), s) - list.begin());
  if (k < list.size()) return k;
  size_t nearest = 0;
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i].zero == s.zero && list[i].states == s.states) nearest = i;
  return nearest;
}

Assignment one_strategy(const SpaceOfChoices& space, const Candidate& c, const LayerStrategy& s) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c);
  Assignment a;
  std::vector<const CostVector*> chosen;
  for (const Layer& layer : space.layers) {
    const auto& rows = t.kinds[static_cast<size_t>(layer.kind)];
    const size_t k = row_of(rows, form, s);
    chosen.push_back(&rows.cost[form][k]);
    a.strategy.push_back(static_cast<int>(k));
  }
  a.stage = even_split(space, chosen, c.num_stages * c.chunks);
  return a;
}

// Strategies that could fit if all stages held as much, those of least device bytes first.
std::vector<LayerStrategy> roomy_strategies(const SpaceOfChoices& space, const Candidate& c) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int form = form_of(c);
  const TierBytes room = most_capacity(space, t);
  std::vector<std::pair<int64_t, LayerStrategy>> all;
  for (const LayerStrategy& s : strategies_of(t, form)) {
    TierBytes bytes{};
    for (const ChoiceTables::Rows& rows : t.kinds) {
      const CostVector& v = rows.cost[form][row_of(rows, form, s)];
      for (size_t tier = 0; tier < kTiers; ++tier) bytes[tier] += rows.layers * (v.persistent[tier] + v.held[tier]);
    }
    bool fits = true;
    for (size_t tier = 0; tier < kTiers; ++tier) fits &= bytes[tier] / c.num_stages <= room[tier];
    if (fits) all.emplace_back(bytes[0], s);
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<LayerStrategy> out;
  for (const auto& [bytes, s] : all) out.push_back(s);
  return out;
}

}  // namespace

UniformPlan uniform_plan(const SpaceOfChoices& space, const Candidate& c, const BuiltInstance& built) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  if (t.group == kMixed) return mixed_plan(space, c, built);
  UniformPlan best;
  Pricer pricer(built.instance);
  for (const LayerStrategy& s : strategies_of(t, form_of(c))) {
    if (space.late()) break;
    const Assignment a = one_strategy(space, c, s);
    const Priced priced = pricer(a);
    if (!priced.fits() || (best.found && priced.makespan >= best.makespan)) continue;
    best = {true, a, priced.makespan};
  }
  return best;
}

UniformPlan first_fit(const SpaceOfChoices& space, const Candidate& c, BuiltInstance& built, int64_t& left) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  const int64_t operations = operations_of(choice_of(space, c)), L = std::ssize(space.layers);
  const bool mixed = t.group == kMixed;
  const std::vector<LayerStrategy> tried = mixed ? std::vector<LayerStrategy>(1) : roomy_strategies(space, c);
  left -= 10 * L;
  if (tried.empty()) return {};
  if (built.tables != c.tables || built.form != form_of(c)) {
    const int64_t rows = std::ssize(strategies_of(t, form_of(c)));
    left -= L * rows * rows;
  }
  build_instance(space, c, built);
  if (mixed || space.pinned.even) {
    left -= operations * std::ssize(tried);
    return mixed ? mixed_plan(space, c, built) : even_plan(space, c, built.instance).plan;
  }
  Pricer pricer(built.instance);
  for (const LayerStrategy& s : tried) {
    if (left <= 0) break;
    left -= operations;
    Assignment a = one_strategy(space, c, s);
    const Priced priced = pricer(a);
    if (priced.fits()) return {true, std::move(a), priced.makespan};
  }
  return {};
}

namespace {

// An assignment whose layers step down their kind's ladder of strategies, from the fastest to the one of least bytes.
struct Repair {
  const SpaceOfChoices& space;
  const std::vector<Ladder>& ladders;
  Assignment a;
  std::vector<size_t> rung = std::vector<size_t>(a.stage.size(), 0);
  std::vector<std::vector<int>> of_device = {};

  const Ladder& ladder(size_t layer) const { return ladders[static_cast<size_t>(space.layers[layer].kind)]; }
  void begin(const PipelineShape& shape);
  bool step_down(int form, const Priced& priced, const std::vector<TierBytes>& capacity);
};

void Repair::begin(const PipelineShape& shape) {
  of_device.resize(static_cast<size_t>(shape.num_devices));
  for (size_t u = 0; u < a.stage.size(); ++u) {
    a.strategy.push_back(ladder(u).strategy.front());
    of_device[static_cast<size_t>(device_of(shape, a.stage[u]))].push_back(static_cast<int>(u));
  }
}

// On each device that lacks bytes the layer on the lowest rung steps down; false: nothing can.
bool Repair::step_down(int form, const Priced& priced, const std::vector<TierBytes>& capacity) {
  for (size_t d = 0; d < of_device.size(); ++d) {
    if (priced.peak[d][0] <= capacity[d][0]) continue;
    int lowest = -1;
    for (const int u : of_device[d]) {
      const size_t at = static_cast<size_t>(u);
      if (rung[at] + 1 < ladder(at).strategy.size() && (lowest < 0 || rung[at] < rung[static_cast<size_t>(lowest)]))
        lowest = u;
    }
    if (lowest < 0) return form == kTimed && hand_over(a, of_device, d, priced, capacity);  // priced anew
    const size_t at = static_cast<size_t>(lowest);
    a.strategy[at] = ladder(at).strategy[++rung[at]];
  }
  return true;
}

}  // namespace

UniformPlan repaired_plan(const SpaceOfChoices& space, const Candidate& c, const BuiltInstance& built,
                          int64_t upper_bound) {
  const ChoiceTables& t = space.tables[static_cast<size_t>(c.tables)];
  if (t.group == kMixed) return mixed_plan(space, c, built);
  const int form = form_of(c), L = static_cast<int>(space.layers.size());
  const double micro = static_cast<double>(c.num_micro);
  std::vector<Ladder> ladders;
  for (const auto& rows : t.kinds)
    ladders.push_back(ladder_of(rows.cost[form], micro, std::min<double>(micro, c.num_stages)));
  std::vector<std::vector<int>> splits = splits_of(c, L);
  std::vector<const CostVector*> fastest;
  for (const Layer& layer : space.layers) {
    const size_t kind = static_cast<size_t>(layer.kind);
    fastest.push_back(&t.kinds[kind].cost[form][static_cast<size_t>(ladders[kind].strategy.front())]);
  }
  UniformPlan best;
  Pricer pricer(built.instance);
  const auto repair = [&](std::vector<int> stages) {
    Repair r{space, ladders, {std::move(stages), {}}};
    r.begin(shape_of(built.instance));
    for (int step = 0; step < kMostRepairs && !space.late(); ++step) {
      const Priced priced = pricer(r.a);
      const int64_t most = std::min(upper_bound, best.found ? best.makespan : upper_bound);
      if (priced.makespan >= most) return;
      if (priced.fits()) {
        best = {true, r.a, priced.makespan};
        return;
      }
      if (!r.step_down(form, priced, built.instance.capacity)) return;
    }
  };
  repair(even_split(space, fastest, c.num_stages * c.chunks));
  for (const auto& sizes : splits) {
    std::vector<int> stages;
    for (size_t s = 0; s < sizes.size(); ++s)
      stages.insert(stages.end(), static_cast<size_t>(sizes[s]), static_cast<int>(s));
    repair(std::move(stages));
  }
  return best;
}

}  // namespace tern
