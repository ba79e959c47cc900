#include "calibrate/fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "calibrate/run_set.h"

namespace tern {
namespace {

constexpr size_t N = kNumConstants;

// A constant as the fit sees it: distance from the nominal value in spreads.
double constant_at(const ConstantSpec& s, double z) {
  const double x = s.ratio ? s.nominal * std::exp(z * s.spread) : s.nominal + z * s.spread;
  return std::clamp(x, s.least, s.most);
}
double place_of(const ConstantSpec& s, double x) {
  return (s.ratio ? std::log(x / s.nominal) : x - s.nominal) / s.spread;
}

Constants constants_at(const Constants& z) {
  Constants c;
  for (size_t k = 0; k < N; ++k) c[k] = constant_at(constant_specs()[k], z[k]);
  return c;
}

Constants places_of(const Constants& c) {
  Constants z;
  for (size_t k = 0; k < N; ++k) z[k] = place_of(constant_specs()[k], c[k]);
  return z;
}

struct Seen {
  std::vector<double> residual;  // in scales
  double objective = 0;
};

// Solves (A + λ·diag A)·x = b for the free constants; A positive definite. Cholesky, in place.
std::array<double, N> solve(std::array<std::array<double, N>, N> a, std::array<double, N> b, double damping,
                            const std::array<bool, N>& fixed) {
  for (size_t i = 0; i < N; ++i) {
    a[i][i] *= 1 + damping;
    if (!fixed[i]) continue;
    for (size_t k = 0; k < N; ++k) a[i][k] = a[k][i] = 0;
    a[i][i] = 1, b[i] = 0;
  }
  for (size_t i = 0; i < N; ++i)
    for (size_t k = 0; k <= i; ++k) {
      double sum = a[i][k];
      for (size_t j = 0; j < k; ++j) sum -= a[i][j] * a[k][j];
      a[i][k] = i == k ? std::sqrt(std::max(sum, 1e-30)) : sum / a[k][k];
    }
  for (size_t i = 0; i < N; ++i) {
    for (size_t j = 0; j < i; ++j) b[i] -= a[i][j] * b[j];
    b[i] /= a[i][i];
  }
  for (size_t i = N; i-- > 0;) {
    for (size_t j = i + 1; j < N; ++j) b[i] -= a[j][i] * b[j];
    b[i] /= a[i][i];
  }
  return b;
}

// ½ Σ log(1 + r²) + ½ Σ z², r in scales; not robust: ½ Σ r² + ½ Σ z².
struct Objective {
  const RunSet& runs;
  std::span<const size_t> rows;
  double scale;
  bool robust;
  Constants low, high;  // of z

  Objective(const RunSet& set, std::span<const size_t> which, double s, bool r)
      : runs(set), rows(which), scale(s), robust(r) {
    for (size_t k = 0; k < N; ++k) {
      const ConstantSpec& spec = constant_specs()[k];
      low[k] = place_of(spec, spec.least), high[k] = place_of(spec, spec.most);
    }
  }
  std::vector<double> residuals(const Constants& z) const {
    std::vector<double> r = runs.seconds(rows, constants_at(z));
    for (size_t i = 0; i < r.size(); ++i) r[i] = std::log(r[i] / runs.run(rows[i]).seconds) / scale;
    return r;
  }
  Seen operator()(const Constants& z) const {
    Seen s{residuals(z)};
    for (const double r : s.residual) s.objective += 0.5 * (robust ? std::log1p(r * r) : r * r);
    for (const double x : z) s.objective += 0.5 * x * x;
    return s;
  }
};

// The weighted least squares around z: A and b of A·step = b.
struct Normal {
  std::array<std::array<double, N>, N> a{};
  std::array<double, N> b{};
};
Normal normal_equations(const Objective& objective, const Constants& z, const std::vector<double>& residual) {
  Normal n;
  std::vector<std::vector<double>> slope(N);
  for (size_t k = 0; k < N; ++k) {
    Constants other = z;
    const double h = z[k] + 0.02 <= objective.high[k] ? 0.02 : -0.02;  // in spreads
    other[k] += h;
    slope[k] = objective.residuals(other);
    for (size_t i = 0; i < residual.size(); ++i) slope[k][i] = (slope[k][i] - residual[i]) / h;
  }
  for (size_t i = 0; i < residual.size(); ++i) {
    const double w = objective.robust ? 1 / (1 + residual[i] * residual[i]) : 1;
    for (size_t k = 0; k < N; ++k) {
      n.b[k] -= w * slope[k][i] * residual[i];
      for (size_t j = 0; j <= k; ++j) n.a[k][j] += w * slope[k][i] * slope[j][i];
    }
  }
  for (size_t k = 0; k < N; ++k) {
    n.a[k][k] += 1, n.b[k] -= z[k];
    for (size_t j = 0; j < k; ++j) n.a[j][k] = n.a[k][j];
  }
  return n;
}

Fit descend(const Objective& objective, Constants z, int most_rounds) {
  Seen now = objective(z);
  double damping = 1e-3;
  int round = 0;
  for (bool moves = true; moves && round < most_rounds; ++round) {
    const Normal n = normal_equations(objective, z, now.residual);
    std::array<bool, N> fixed{};  // at a bound and drawn outwards
    for (size_t k = 0; k < N; ++k)
      fixed[k] = (z[k] <= objective.low[k] && n.b[k] < 0) || (z[k] >= objective.high[k] && n.b[k] > 0);
    moves = false;
    for (int attempt = 0; attempt < 10; ++attempt, damping *= 6) {
      const std::array<double, N> step = solve(n.a, n.b, damping, fixed);
      Constants next = z;
      for (size_t k = 0; k < N; ++k) next[k] = std::clamp(z[k] + step[k], objective.low[k], objective.high[k]);
      Seen then = objective(next);
      if (!(then.objective < now.objective)) continue;
      moves = now.objective - then.objective > 1e-5 * now.objective;
      z = next, now = std::move(then);
      damping = std::max(damping / 4, 1e-6);
      break;
    }
  }
  return {constants_at(z), now.objective, round};
}

}  // namespace

Fit fit_constants(const RunSet& runs, std::span<const size_t> rows, const FitOptions& o) {
  if (rows.empty()) throw Error(ErrorKind::usage, "calibrate: no row has a measured time that may be fitted");
  for (const size_t i : rows)
    if (!(runs.run(i).seconds > 0))
      throw Error(ErrorKind::usage, "calibrate: line {} states no measured time", runs.run(i).line);
  // From the nominal values; and from the least squares of all rows, or rows that are all far from what the nominal
  // values say would count as rows that nothing explains.
  const Objective objective(runs, rows, o.scale, true);
  const Fit near = descend(objective, {}, o.most_rounds);
  const Fit all = descend(Objective(runs, rows, o.scale, false), {}, o.most_rounds);
  const Fit far = descend(objective, places_of(all.constants), o.most_rounds);
  return far.objective < near.objective ? far : near;
}

}  // namespace tern
