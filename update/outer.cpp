#include "update/outer.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "update/elements.h"
#include "update/outer_average.h"

namespace tern {
namespace {

// to = φ - w.
template <class T>
void difference(std::span<const T> common, std::span<const T> w, std::span<T> to) {
  for_each_element(to.size(), [=](size_t i) { to[i] = common[i] - w[i]; });
}

// The fragment's tensors become this rank's differences; in pairs its weights, which are what a pair averages.
template <class T>
void gather_own(const OuterStep& o, const OuterVector& v, std::span<const Tensor> masters) {
  for (size_t i = 0; i < v.parameters.size(); ++i) {
    const size_t p = v.parameters[i];
    if (o.config.pairs)
      std::memcpy(v.tensors[i].data(), masters[p].data(), static_cast<size_t>(masters[p].bytes()));
    else
      difference<T>(o.state.common[p].span<T>(), masters[p].span<T>(), v.tensors[i].span<T>());
  }
}

template <class T>
void average(OuterStep& o, int64_t step, const OuterVector& v, Comm& world) {
  if (!o.config.pairs) return average_all<T>(o, step, v, world);
  if (is_away(o.config, o.state.rank, step)) {
    for (const Tensor& t : v.tensors) t.fill_zero();
    return;
  }
  const std::vector<int> partners = partners_at(o.config, v.fragment, o.state.ranks, step);
  average_pair<T>(o, partners[static_cast<size_t>(o.state.rank)], v, world);
  for (size_t i = 0; i < v.parameters.size(); ++i) {
    const std::span<T> mean = v.tensors[i].span<T>();
    difference<T>(o.state.common[v.parameters[i]].span<T>(), mean, mean);
  }
}

// The outer rule, then what a replica keeps of its own; the average becomes zero.
template <class T>
void count(const OuterStep& o, int64_t step, const OuterVector& v, std::span<const Tensor> masters) {
  const OuterConfig& c = o.config;
  const bool away = is_away(c, o.state.rank, step);
  // In pairs nothing has come to who was cut off when it should have been sent.
  const bool missed = c.pairs && is_away(c, o.state.rank, step - c.delay);
  const auto rate = static_cast<T>(c.rate), keep = static_cast<T>(c.momentum), own = static_cast<T>(c.mix);
  const bool nesterov = c.nesterov;
  for (size_t n = 0; n < v.parameters.size() && !missed; ++n) {
    const size_t p = v.parameters[n];
    const std::span<T> common = o.state.common[p].span<T>(), d = v.tensors[n].span<T>();
    const std::span<T> u = o.state.momentum.empty() ? std::span<T>() : o.state.momentum[p].span<T>();
    for_each_element(d.size(), [=](size_t i) {
      T by = d[i];
      if (!u.empty()) {
        u[i] = keep * u[i] + d[i];
        by = nesterov ? by + keep * u[i] : u[i];
      }
      common[i] -= rate * by;
      d[i] = 0;
    });
    if (away && !c.pairs) continue;
    const std::span<T> w = masters[p].span<T>();
    for_each_element(w.size(), [=](size_t i) { w[i] = own == 0 ? common[i] : (1 - own) * common[i] + own * w[i]; });
  }
}

OuterVector vector_of(const OuterState& s, int fragment, std::span<const Tensor> tensors) {
  OuterVector v{.fragment = fragment, .parameters = {}, .tensors = {}};
  for (size_t p = 0; p < s.fragment.size(); ++p)
    if (s.fragment[p] == fragment) v.parameters.push_back(p), v.tensors.push_back(tensors[p]);
  return v;
}

// Whoever was cut off goes on from the model in common.
bool come_back(const OuterStep& o, int64_t step, std::span<const Tensor> masters) {
  const OuterConfig& c = o.config;
  if (c.pairs || !is_away(c, o.state.rank, step) || is_away(c, o.state.rank, step + 1)) return false;
  for (size_t p = 0; p < masters.size(); ++p)
    std::memcpy(masters[p].data(), o.state.common[p].data(), static_cast<size_t>(masters[p].bytes()));
  return true;
}

template <class T>
bool step_of(OuterStep& o, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
             Comm& world) {
  const OuterConfig& c = o.config;
  bool changed = false;
  for (int f = 0; f < c.fragments; ++f) {
    const bool sends = sends_at(c, f, step);
    if (!sends && !counts_at(c, f, step)) continue;
    const OuterVector fresh = vector_of(o.state, f, scratch);
    if (sends) gather_own<T>(o, fresh, masters);  // before anything counts
    if (c.delay > 0 && counts_at(c, f, step)) {
      count<T>(o, step, vector_of(o.state, f, o.state.pending), masters);
      changed = true;
    }
    if (!sends) continue;
    average<T>(o, step, fresh, world);
    if (c.delay == 0) {
      count<T>(o, step, fresh, masters), changed = true;
      continue;
    }
    const OuterVector pending = vector_of(o.state, f, o.state.pending);
    for (size_t i = 0; i < fresh.tensors.size(); ++i) {
      std::memcpy(pending.tensors[i].data(), fresh.tensors[i].data(), static_cast<size_t>(fresh.tensors[i].bytes()));
      fresh.tensors[i].fill_zero();
    }
  }
  return come_back(o, step, masters) || changed;
}

}  // namespace

OuterState make_outer_state(const OuterConfig& c, std::span<const Tensor> masters, std::span<const int> units,
                            int num_units, int rank, int ranks, Arena& arena) {
  OuterState s{.ranks = ranks, .rank = rank, .pairs = c.pairs};
  const DType type = masters.front().dtype();
  const auto zeros = [&](const Shape& shape) { return arena.zeros(type, shape, MemoryClass::optimizer); };
  std::vector<int64_t> elements(static_cast<size_t>(c.fragments));
  for (size_t p = 0; p < masters.size(); ++p) {
    const Tensor& w = masters[p];
    s.fragment.push_back(fragment_of(units[p], num_units, c.fragments));
    elements[static_cast<size_t>(s.fragment.back())] += w.count();
    s.common.push_back(arena.allocate(type, w.shape(), MemoryClass::optimizer));
    std::memcpy(s.common.back().data(), w.data(), static_cast<size_t>(w.bytes()));
    if (c.momentum > 0) s.momentum.push_back(zeros(w.shape()));
    if (c.delay > 0) s.pending.push_back(zeros(w.shape()));
    if (c.codec != OuterCodec::power_sgd) continue;
    const LowRankForm form = low_rank_form(w.shape(), c.codec_rank);
    s.left.push_back(form.factor_rank > 0 ? zeros({form.rows, form.factor_rank}) : Tensor());
    s.right.push_back(form.factor_rank > 0 ? zeros({form.columns, form.factor_rank}) : Tensor());
  }
  for (size_t f = 0; c.codec != OuterCodec::none && f < elements.size(); ++f) {
    s.error.push_back(zeros({elements[f]}));
    if (!is_in_codes(c.codec)) continue;
    const int64_t part = part_of(elements[f], rank, ranks).size();
    s.sum_error.push_back(part > 0 ? zeros({part}) : Tensor());
  }
  return s;
}

bool outer_step(OuterStep& o, int64_t step, std::span<const Tensor> masters, std::span<const Tensor> scratch,
                Comm& world) {
  TERN_CHECK(
      masters.size() == o.state.common.size() && scratch.size() == masters.size() && world.size() == o.state.ranks,
      "outer step: {} masters, {} in common, {} ranks in a world of {}", masters.size(), o.state.common.size(),
      o.state.ranks, world.size());
  if (masters.front().dtype() == DType::f64) return step_of<double>(o, step, masters, scratch, world);
  return step_of<float>(o, step, masters, scratch, world);
}

}  // namespace tern
