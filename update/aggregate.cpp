#include "update/aggregate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

template <class T>
size_t length_of(const Vectors<T>& x) {
  TERN_CHECK(!x.empty(), "aggregate: no vectors");
  for (const std::span<const T> v : x)
    TERN_CHECK(v.size() == x[0].size(), "aggregate: vectors of {} and of {} elements", x[0].size(), v.size());
  return x[0].size();
}

int workers_of(std::span<const double> distances) {
  const auto n = static_cast<int>(std::lround(std::sqrt(static_cast<double>(distances.size()))));
  TERN_CHECK(n > 0 && static_cast<size_t>(n) * static_cast<size_t>(n) == distances.size(), "aggregate: {} distances",
             distances.size());
  return n;
}

// Of each coordinate the mean of the sorted values [first, last).
template <class T>
std::vector<T> mean_of_middle(const Vectors<T>& x, size_t first, size_t last) {
  std::vector<T> out(length_of(x)), column(x.size());
  for (size_t i = 0; i < out.size(); ++i) {
    for (size_t k = 0; k < x.size(); ++k)
      column[k] = std::isnan(x[k][i]) ? std::numeric_limits<T>::infinity() : x[k][i];  // NaN has no place in an order
    std::sort(column.begin(), column.end());
    double sum = 0;
    for (size_t k = first; k < last; ++k) sum += static_cast<double>(column[k]);
    out[i] = static_cast<T>(sum / static_cast<double>(last - first));
  }
  return out;
}

template <class T>
double squared_distance(std::span<const T> a, std::span<const double> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
  return std::isnan(sum) ? INFINITY : sum;
}

template <class T>
std::vector<T> narrowed(const std::vector<double>& x) {
  std::vector<T> out(x.size());
  std::transform(x.begin(), x.end(), out.begin(), [](double v) { return static_cast<T>(v); });
  return out;
}

// The others of a worker, the nearest first, of equals the lower number.
std::vector<int> others_by_distance(std::span<const double> distances, int n, int worker) {
  std::vector<int> others;
  for (int j = 0; j < n; ++j)
    if (j != worker) others.push_back(j);
  std::stable_sort(others.begin(), others.end(), [&](int a, int b) {
    return distances[static_cast<size_t>(worker * n + a)] < distances[static_cast<size_t>(worker * n + b)];
  });
  return others;
}

template <class T>
std::vector<T> mean_of_some(const Vectors<T>& x, const std::vector<int>& workers) {
  Vectors<T> some;
  for (const int w : workers) some.push_back(x[static_cast<size_t>(w)]);
  return mean_of(some);
}

}  // namespace

template <class T>
std::vector<T> mean_of(const Vectors<T>& x) {
  std::vector<double> sum(length_of(x));
  for (const std::span<const T> v : x)
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += static_cast<double>(v[i]);
  for (double& s : sum) s /= static_cast<double>(x.size());
  return narrowed<T>(sum);
}

template <class T>
std::vector<T> coordinate_median(const Vectors<T>& x) {
  return mean_of_middle(x, (x.size() - 1) / 2, x.size() / 2 + 1);
}

template <class T>
std::vector<T> trimmed_mean(const Vectors<T>& x, int f) {
  TERN_CHECK(f >= 0 && std::ssize(x) > 2 * f, "trimmed_mean: f {} of {} workers", f, x.size());
  return mean_of_middle(x, static_cast<size_t>(f), x.size() - static_cast<size_t>(f));
}

template <class T>
std::vector<double> squared_distances(const Vectors<T>& x) {
  const size_t n = x.size(), length = length_of(x);
  std::vector<double> all(n * n);
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < a; ++b) {
      double sum = 0;
      for (size_t i = 0; i < length; ++i) {
        const double apart = static_cast<double>(x[a][i]) - static_cast<double>(x[b][i]);
        sum += apart * apart;
      }
      all[a * n + b] = all[b * n + a] = std::isnan(sum) ? INFINITY : sum;
    }
  return all;
}

int krum_choice(std::span<const double> distances, int f) {
  const int n = workers_of(distances);
  TERN_CHECK(f >= 0 && n >= 2 * f + 3, "krum: f {} of {} workers", f, n);
  int best = 0;
  double least = INFINITY;
  for (int i = 0; i < n; ++i) {
    const std::vector<int> others = others_by_distance(distances, n, i);
    double score = 0;
    for (int k = 0; k < n - f - 2; ++k) score += distances[static_cast<size_t>(i * n + others[static_cast<size_t>(k)])];
    if (score < least) least = score, best = i;
  }
  return best;
}

template <class T>
std::vector<T> krum(const Vectors<T>& x, int f) {
  const std::span<const T> chosen = x[static_cast<size_t>(krum_choice(squared_distances(x), f))];
  return {chosen.begin(), chosen.end()};
}

template <class T>
std::vector<T> geometric_median(const Vectors<T>& x, const GeometricMedian& how) {
  TERN_CHECK(how.steps >= 0 && how.smooth > 0, "geometric_median: {} steps, smoothed by {}", how.steps, how.smooth);
  const std::vector<T> start = coordinate_median(x);
  std::vector<double> v(start.begin(), start.end()), next(v.size());
  for (int step = 0; step < how.steps; ++step) {
    std::fill(next.begin(), next.end(), 0.0);
    double weights = 0;
    for (const std::span<const T> worker : x) {
      const double weight = 1 / std::max(std::sqrt(squared_distance<T>(worker, v)), how.smooth);
      if (weight == 0) continue;
      weights += weight;
      for (size_t i = 0; i < v.size(); ++i) next[i] += weight * static_cast<double>(worker[i]);
    }
    for (size_t i = 0; i < v.size(); ++i) v[i] = next[i] / weights;
  }
  return narrowed<T>(v);
}

template <class T>
std::vector<T> centred_clipping(const Vectors<T>& x, std::span<const T> start, const CentredClipping& how) {
  TERN_CHECK(start.size() == length_of(x) && how.radius > 0 && how.steps >= 0,
             "centred_clipping: a start of {}, radius {}, {} steps", start.size(), how.radius, how.steps);
  std::vector<double> v(start.begin(), start.end()), moved(v.size());
  for (int step = 0; step < how.steps; ++step) {
    std::fill(moved.begin(), moved.end(), 0.0);
    for (const std::span<const T> worker : x) {
      const double distance = std::sqrt(squared_distance<T>(worker, v));
      if (!std::isfinite(distance)) continue;
      const double share = distance > how.radius ? how.radius / distance : 1;
      for (size_t i = 0; i < v.size(); ++i) moved[i] += share * (static_cast<double>(worker[i]) - v[i]);
    }
    for (size_t i = 0; i < v.size(); ++i) v[i] += moved[i] / static_cast<double>(x.size());
  }
  return narrowed<T>(v);
}

std::vector<std::vector<int>> nearest_neighbours(std::span<const double> distances, int f) {
  const int n = workers_of(distances);
  TERN_CHECK(f >= 0 && n > 2 * f, "nearest_neighbours: f {} of {} workers", f, n);
  std::vector<std::vector<int>> all;
  for (int i = 0; i < n; ++i) {
    std::vector<int> own = others_by_distance(distances, n, i);
    own.resize(static_cast<size_t>(n - f - 1));
    own.push_back(i);
    std::sort(own.begin(), own.end());
    all.push_back(std::move(own));
  }
  return all;
}

template <class T>
std::vector<std::vector<T>> nearest_neighbour_mixing(const Vectors<T>& x, int f) {
  std::vector<std::vector<T>> mixed;
  for (const std::vector<int>& own : nearest_neighbours(squared_distances(x), f)) mixed.push_back(mean_of_some(x, own));
  return mixed;
}

std::vector<std::vector<int>> deal_buckets(int n, int size, uint64_t seed, uint64_t step) {
  TERN_CHECK(size >= 1, "bucketing: buckets of {}", size);
  std::vector<int> dealt(static_cast<size_t>(n));
  std::iota(dealt.begin(), dealt.end(), 0);
  for (size_t left = dealt.size(); left > 1; --left)  // Fisher and Yates
    std::swap(dealt[left - 1], dealt[random_u64({seed, step}, left) % left]);
  std::vector<std::vector<int>> buckets;
  for (auto begin = dealt.begin(); begin != dealt.end();) {
    const auto end = begin + std::min<std::ptrdiff_t>(size, dealt.end() - begin);
    buckets.emplace_back(begin, end);
    begin = end;
  }
  return buckets;
}

template <class T>
std::vector<std::vector<T>> bucketing(const Vectors<T>& x, int size, uint64_t seed, uint64_t step) {
  std::vector<std::vector<T>> means;
  for (const std::vector<int>& bucket : deal_buckets(static_cast<int>(x.size()), size, seed, step))
    means.push_back(mean_of_some(x, bucket));
  return means;
}

#define TERN_INSTANTIATE(T)                                                                                \
  template std::vector<T> mean_of(const Vectors<T>&);                                                      \
  template std::vector<T> coordinate_median(const Vectors<T>&);                                            \
  template std::vector<T> trimmed_mean(const Vectors<T>&, int);                                            \
  template std::vector<double> squared_distances(const Vectors<T>&);                                       \
  template std::vector<T> krum(const Vectors<T>&, int);                                                    \
  template std::vector<T> geometric_median(const Vectors<T>&, const GeometricMedian&);                     \
  template std::vector<T> centred_clipping(const Vectors<T>&, std::span<const T>, const CentredClipping&); \
  template std::vector<std::vector<T>> nearest_neighbour_mixing(const Vectors<T>&, int);                   \
  template std::vector<std::vector<T>> bucketing(const Vectors<T>&, int, uint64_t, uint64_t);
TERN_INSTANTIATE(float)
TERN_INSTANTIATE(double)

}  // namespace tern
