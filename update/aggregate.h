#pragma once
// Aggregators: they make one vector of the vectors that n workers sent, of whom up to f may send anything. All are pure functions. T is float
// or double; sums are doubles.
// A rule F is (f, κ)-robust if for all vectors and every set S of n - f of them ‖F - mean_S‖² <= κ/|S| Σ_S ‖x_i - mean_S‖².
// Source of this definition, and of κ below: Allouah et al. 2023, arXiv:2302.01772, table 1 and lemma 5 (recalled).
//
// | rule                     | takes      | κ                                |
// |--------------------------|------------|----------------------------------|
// | mean                     | f = 0      | none for f > 0                   |
// | Krum                     | n >= 2f+3  | 6(1 + f/(n-2f))                  |
// | coordinate median        | n > 2f     | 4(1 + f/(n-2f))²                 |
// | trimmed mean             | n > 2f     | 6f/(n-2f)·(1 + f/(n-2f))         |
// | geometric median         | n > 2f     | 4(1 + f/(n-2f))²                 |
// | a rule after the mixing  | as the rule| 8f/(n-f)·(κ + 1)                 |
//
// In all rules below NaN counts as +∞, and a vector with an element that is not finite is infinitely far from all others. A rule
// with a parameter f outvotes up to f workers who send such vectors. If more workers send them, results need not be finite.

#include <cstdint>
#include <span>
#include <vector>

namespace tern {

/// What the workers sent, all of the same length. Errors of all rules below: TERN_CHECK: there are no vectors; lengths differ; the rule
/// does not take this f, or this value of another parameter.
template <class T>
using Vectors = std::vector<std::span<const T>>;

/// (1/n) Σ x_i, summed in the order of the workers.
template <class T>
std::vector<T> mean_of(const Vectors<T>&);
/// For each coordinate the middle value, or the mean of the two middle ones. The order of the workers changes no bit. The same holds
/// for trimmed_mean.
template <class T>
std::vector<T> coordinate_median(const Vectors<T>&);
/// For each coordinate the mean of the values without the f smallest and the f largest. Source: Yin et al. 2018, arXiv:1803.01498.
template <class T>
std::vector<T> trimmed_mean(const Vectors<T>&, int f);

/// ‖x_i - x_j‖² of all pairs, (n, n). If each rank has one part of all vectors, the sum of the parts' results is the whole
/// vectors' result.
template <class T>
std::vector<double> squared_distances(const Vectors<T>&);
/// The worker with the least sum of squared_distances to its n - f - 2 nearest others; if several have it, the first of them.
/// Source: Blanchard et al. 2017, arXiv:1703.02757.
int krum_choice(std::span<const double> distances, int f);
template <class T>
std::vector<T> krum(const Vectors<T>&, int f);

/// The point with the least Σ ‖x_i - v‖. It is found by `steps` iterations v = Σ w_i x_i / Σ w_i, w_i = 1 / max(‖x_i - v‖, smooth),
/// which start from the coordinate median. Infinitely far vectors have no weight. Source: Weiszfeld 1937; smoothed as in Pillutla
/// et al. 2022, arXiv:1912.13445.
struct GeometricMedian {
  int steps = 100;
  double smooth = 1e-9;
};
template <class T>
std::vector<T> geometric_median(const Vectors<T>&, const GeometricMedian& = {});

/// `steps` iterations v += (1/n) Σ (x_i - v)·min(1, radius/‖x_i - v‖), from `start`. Infinitely far vectors do not move v.
/// Source: Karimireddy, He & Jaggi 2021, arXiv:2012.10333. Bound (theorem III, recalled): let δ = f/n <= 0.1, let pairs of good
/// workers be ρ² apart, let `start` be within B of the good workers' mean, and let radius² = 4(1-δ)(B²/3 + ρ²)/(√3 δ). Then a step
/// leaves ‖v - mean‖² <= 29.1 δ B² + 4000 δ ρ² in expectation.
struct CentredClipping {
  double radius = 1;
  int steps = 1;
};
template <class T>
std::vector<T> centred_clipping(const Vectors<T>&, std::span<const T> start, const CentredClipping&);

/// For each worker a list, ascending, of the workers whose mean replaces its vector: itself and its n - f - 1 nearest others by
/// squared_distances (at equal distance the lower number). Source: Allouah et al. 2023, arXiv:2302.01772, algorithm 2.
std::vector<std::vector<int>> nearest_neighbours(std::span<const double> distances, int f);
template <class T>
std::vector<std::vector<T>> nearest_neighbour_mixing(const Vectors<T>&, int f);
/// Deals n workers into buckets of `size` (the last may hold fewer), by a permutation whose key is the seed and the step, so that
/// all ranks make the same buckets. `bucketing` returns the buckets' means. Source: Karimireddy, He & Jaggi 2022,
/// arXiv:2006.09365, algorithm 1.
std::vector<std::vector<int>> deal_buckets(int n, int size, uint64_t seed, uint64_t step);
template <class T>
std::vector<std::vector<T>> bucketing(const Vectors<T>&, int size, uint64_t seed, uint64_t step);

/// Views of the rows, as input for the next aggregator.
template <class T>
Vectors<T> views_of(const std::vector<std::vector<T>>& rows) {
  return {rows.begin(), rows.end()};
}

}  // namespace tern
