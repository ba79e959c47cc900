#include "adapt/input_memory.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/symmetric_eigen.h"

namespace tern {
namespace {

using Matrix = std::vector<double>;

double trace(const Matrix& m, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += m[static_cast<size_t>(i * n + i)];
  return sum;
}

Matrix transposed(const Matrix& m, int64_t rows, int64_t columns) {
  Matrix t(m.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      t[static_cast<size_t>(c * rows + r)] = m[static_cast<size_t>(r * columns + c)];
  return t;
}

// K.
Matrix energies_of(std::span<const double> covariance, int64_t d, InfloraMode mode) {
  TERN_CHECK(static_cast<int64_t>(covariance.size()) == d * d, "covariance of {} numbers, {} inputs", covariance.size(),
             d);
  if (mode == InfloraMode::paper) return {covariance.begin(), covariance.end()};
  return product(covariance, covariance, d, d, d);
}

// Q·K·Q of a symmetric K: the rows projected, transposed, and once more.
Matrix projected(const InputMemory& memory, const Matrix& k) {
  const int64_t d = memory.dim;
  return free_part(memory, transposed(free_part(memory, k), d, d));
}

// Directions whose energy is more than rounding.
int64_t num_positive(const std::vector<double>& values, double total) {
  const double floor = static_cast<double>(values.size()) * 1e-15 * total;
  return std::ranges::count_if(values, [&](double v) { return v > floor; });
}

std::span<const double> row_of(const Matrix& m, int64_t row, int64_t width) {
  return std::span(m).subspan(static_cast<size_t>(row * width), static_cast<size_t>(width));
}

// `x` made free and of norm 1, again, as a vector of little energy may lean on what is protected; empty: nothing of it is free.
Matrix made_free(const InputMemory& memory, std::span<const double> x) {
  Matrix v(x.begin(), x.end());
  for (int pass = 0; pass < 2; ++pass) {
    v = free_part(memory, v);
    const double norm = std::sqrt(dot(v, v));
    if (norm < 0.5) return {};
    for (double& number : v) number /= norm;
  }
  return v;
}

// Of the first task of a memory that is empty.
int64_t first_count(const std::vector<double>& values, double total, double threshold, InfloraMode mode) {
  double sum = 0;
  int64_t below = 0;  // cumulated energies that are less than the threshold
  for (const double v : values) {
    sum += std::max(v, 0.0);
    if (sum / total >= threshold) break;
    ++below;
  }
  const auto all = static_cast<int64_t>(values.size());
  return std::clamp<int64_t>(mode == InfloraMode::paper ? below + 1 : below, 1, all);
}

void protect(InputMemory& memory, const Matrix& k, double total, double threshold, InfloraMode mode) {
  const int64_t d = memory.dim;
  const bool first = memory.rows.empty();
  const Matrix rest = projected(memory, k);
  const SymmetricEigen e = symmetric_eigen(rest, d);
  const int64_t most = first ? std::min(first_count(e.values, total, threshold, mode), num_positive(e.values, total))
                             : num_positive(e.values, total);
  double captured = 1 - trace(rest, d) / total;
  for (int64_t i = 0; i < most && (first || captured < threshold); ++i) {
    const Matrix direction = made_free(memory, row_of(e.vectors, i, d));
    captured += e.values[static_cast<size_t>(i)] / total;
    memory.rows.insert(memory.rows.end(), direction.begin(), direction.end());
  }
}

// In the coordinates of the free rows, so that what stays is as orthonormal as they are.
void give_up(InputMemory& memory, const Matrix& k, double total, double threshold) {
  const int64_t d = memory.dim, n = memory.num_rows();
  if (n == 0) return;
  const Matrix inner = product_transposed(product(memory.rows, k, n, d, d), memory.rows, n, d, n);
  const SymmetricEigen e = symmetric_eigen(inner, n);
  double kept = trace(inner, n) / total;
  int64_t dropped = 0;
  while (dropped < n && kept >= 1 - threshold && e.values[static_cast<size_t>(dropped)] > 0)
    kept -= e.values[static_cast<size_t>(dropped++)] / total;
  const auto rest = std::span(e.vectors).subspan(static_cast<size_t>(dropped * n));
  memory.rows = product(rest, memory.rows, n - dropped, n, d);
}

// The complement: the vectors of MᵀM whose value is 0, not 1.
void keep_what_is_free(InputMemory& memory) {
  const int64_t d = memory.dim, n = memory.num_rows();
  const SymmetricEigen e = symmetric_eigen(product(transposed(memory.rows, n, d), memory.rows, d, n, d), d);
  memory.rows.assign(e.vectors.begin() + n * d, e.vectors.end());
  memory.keeps_free = true;
}

}  // namespace

double dot(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

std::string_view name_of(InfloraMode mode) { return mode == InfloraMode::paper ? "paper" : "code"; }

double energy_threshold(double first, double last, int64_t task, int64_t tasks) {
  return first + (last - first) * static_cast<double>(task) / static_cast<double>(tasks);
}

std::vector<double> free_part(const InputMemory& memory, std::span<const double> x) {
  const int64_t d = memory.dim, count = static_cast<int64_t>(x.size()) / d, n = memory.num_rows();
  Matrix inside = product(product_transposed(x, memory.rows, count, d, n), memory.rows, count, n, d);
  if (!memory.keeps_free)
    for (size_t i = 0; i < inside.size(); ++i) inside[i] = x[i] - inside[i];
  return inside;
}

std::vector<double> task_directions(const InputMemory& memory, std::span<const double> covariance, int64_t rank,
                                    InfloraMode mode) {
  const int64_t d = memory.dim;
  const Matrix k = energies_of(covariance, d, mode);
  const SymmetricEigen e = symmetric_eigen(projected(memory, k), d);
  const int64_t count = std::min(rank, num_positive(e.values, trace(k, d)));
  const double norm = mode == InfloraMode::paper ? 1 : 1 / std::sqrt(3.0);
  Matrix rows(static_cast<size_t>(rank * d));
  for (int64_t i = 0; i < count; ++i) {
    const Matrix direction = made_free(memory, row_of(e.vectors, i, d));
    for (size_t j = 0; j < direction.size(); ++j) rows[static_cast<size_t>(i * d) + j] = norm * direction[j];
  }
  return rows;
}

void remember(InputMemory& memory, std::span<const double> covariance, double threshold, InfloraMode mode) {
  const int64_t d = memory.dim;
  const Matrix k = energies_of(covariance, d, mode);
  const double total = trace(k, d);
  if (!(total > 0)) return;  // no input, or zeros alone
  if (memory.keeps_free)
    give_up(memory, k, total, threshold);
  else
    protect(memory, k, total, threshold, mode);
  if (!memory.keeps_free && 2 * memory.num_rows() > d) keep_what_is_free(memory);
}

}  // namespace tern
