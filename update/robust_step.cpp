#include "update/robust_step.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/vector.h"
#include "spec/layout.h"
#include "update/robust_parts.h"

namespace tern {
namespace {

int64_t elements_of(std::span<const Tensor> tensors) {
  int64_t all = 0;
  for (const Tensor& t : tensors) all += t.count();
  return all;
}

bool finite(const Tensor& t) {
  if (t.dtype() == DType::f32) return all_finite(std::span<const float>(t.span<float>()));
  return std::ranges::all_of(t.span<double>(), [](double x) { return std::isfinite(x); });
}

template <class T>
void average(double momentum, bool first, std::span<T> u, std::span<T> g) {
  const auto keep = static_cast<T>(momentum), take = static_cast<T>(1 - momentum);
  parallel_ranges(std::ssize(u), kParallelGrain, 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      g[i] = u[i] = first ? g[i] : keep * u[i] + take * g[i];
  });
}

void local_momentum(const RobustStep& s, std::span<const Tensor> gradients, int64_t step) {
  if (s.state.momentum.empty() || !std::ranges::all_of(gradients, finite)) return;
  for (size_t p = 0; p < gradients.size(); ++p) {
    const Tensor& u = s.state.momentum[p];
    if (u.dtype() == DType::f32)
      average(s.config.local_momentum, step == 1, u.span<float>(), gradients[p].span<float>());
    else
      average(s.config.local_momentum, step == 1, u.span<double>(), gradients[p].span<double>());
  }
}

// The first row, scaled, into the tensors of this rank's part.
template <class T>
void place(std::span<const T> row, T factor, const std::vector<Tensor>& part) {
  for (const Tensor& t : part) {
    const std::span<T> to = t.span<T>();
    std::transform(row.begin(), row.begin() + std::ssize(to), to.begin(), [&](T x) { return factor * x; });
    row = row.subspan(to.size());
  }
}

template <class T>
void aggregate(RobustStep& s, const RankParts& parts, const Interval& mine, int64_t step, Comm& world) {
  const auto n = static_cast<size_t>(world.size());
  const auto length = static_cast<size_t>(mine.size());
  const std::span<T> all = s.received.span<T>();
  std::vector<std::span<T>> rows;
  for (size_t k = 0; k < n; ++k) rows.push_back(all.subspan(k * length, length));
  const RobustPart part{.config = s.config,
                        .step = step,
                        .elements = mine,
                        .point = s.point.empty() ? std::span<double>() : s.point.span<double>().first(length),
                        .unit = 1 / static_cast<double>(n)};
  attack_part<T>(part, rows);
  const std::span<T> centre = s.state.centre.empty() ? std::span<T>() : s.state.centre.span<T>().first(length);
  aggregate_part<T>(part, rows, centre, [&](std::span<double> values) {
    const std::vector<double> of_all = world.gather(values);
    std::ranges::fill(values, 0.0);
    for (size_t i = 0; i < of_all.size(); ++i) values[i % values.size()] += of_all[i];
  });
  const bool sums = s.config.aggregator == Aggregator::mean;
  place<T>(rows[0], sums ? T{1} : static_cast<T>(n), parts[static_cast<size_t>(world.rank())]);
}

}  // namespace

RobustState make_robust_state(const RobustConfig& config, std::span<const Tensor> gradients, int rank, int ranks,
                              Arena& arena) {
  RobustState state;
  if (config.local_momentum > 0)
    for (const Tensor& g : gradients)
      state.momentum.push_back(arena.zeros(g.dtype(), g.shape(), MemoryClass::optimizer));
  if (config.aggregator == Aggregator::centered_clipping)
    state.centre = arena.zeros(gradients[0].dtype(), {part_of(elements_of(gradients), rank, ranks).size()},
                               MemoryClass::optimizer);
  return state;
}

void aggregate_gradients(RobustStep& s, std::span<const Tensor> gradients, int64_t step, Comm& world) {
  TERN_CHECK(robust_fault(s.config, world.size()).empty(), "aggregate: {}", robust_fault(s.config, world.size()));
  local_momentum(s, gradients, step);
  const RankParts parts = even_parts(gradients, world.size());
  const DType dtype = gradients[0].dtype();
  const Interval mine = part_of(elements_of(gradients), world.rank(), world.size());
  if (s.received.empty()) {
    s.received = s.staging.allocate(dtype, {world.size() * mine.size()}, MemoryClass::staging);
    const bool moves =
        s.config.aggregator == Aggregator::geometric_median || s.config.aggregator == Aggregator::centered_clipping;
    if (moves) s.point = s.staging.allocate(DType::f64, {mine.size()}, MemoryClass::staging);
  }
  world.all_to_all(parts, s.received);
  if (dtype == DType::f64)
    aggregate<double>(s, parts, mine, step, world);
  else
    aggregate<float>(s, parts, mine, step, world);
  world.all_gather(parts);
}

}  // namespace tern
