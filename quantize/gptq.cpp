#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"

namespace tern {
namespace {

constexpr int64_t kMostOfGroup = 256;

// A = RᵀR in the upper triangle, row by row; false where A is not positive.
bool cholesky(std::vector<double>& a, int64_t k) {
  for (int64_t j = 0; j < k; ++j) {
    double* row = a.data() + j * k;
    if (!(row[j] > 0) || !std::isfinite(row[j])) return false;
    const double root = std::sqrt(row[j]);
    for (int64_t c = j; c < k; ++c) row[c] /= root;
#pragma omp parallel for schedule(static) if ((k - j) * (k - j) > 1 << 16)
    for (int64_t i = j + 1; i < k; ++i) {
      double* at = a.data() + i * k;
      const double factor = row[i];
      for (int64_t c = i; c < k; ++c) at[c] -= factor * row[c];
    }
  }
  return true;
}

// The inverse of an upper triangular matrix: columns apart, so by all threads.
std::vector<double> inverse_of_upper(const std::vector<double>& r, int64_t k) {
  constexpr int64_t kTile = 64;
  std::vector<double> u(r.size(), 0.0);
#pragma omp parallel for schedule(dynamic)
  for (int64_t begin = 0; begin < k; begin += kTile) {
    const int64_t end = std::min(begin + kTile, k);
    for (int64_t i = end - 1; i >= 0; --i) {
      double* at = u.data() + i * k;
      for (int64_t c = begin; c < end; ++c) at[c] = c == i ? 1.0 : 0.0;
      for (int64_t j = i + 1; j < end; ++j) {
        const double factor = r[static_cast<size_t>(i * k + j)];
        const double* from = u.data() + j * k;
        for (int64_t c = begin; c < end; ++c) at[c] -= factor * from[c];
      }
      const double diagonal = r[static_cast<size_t>(i * k + i)];
      for (int64_t c = begin; c < end; ++c) at[c] /= diagonal;
    }
  }
  return u;
}

// Takes from the columns [begin, k) of a row what the errors of a group's columns, from `first` on, cost there.
void feed_back(std::span<float> row, int64_t first, std::span<const double> errors, std::span<const double> factor,
               int64_t begin) {
  const auto k = static_cast<int64_t>(row.size());
  float* x = row.data();
  for (size_t j = 0; j < errors.size(); ++j) {
    const double e = errors[j];
    const double* u = factor.data() + (first + static_cast<int64_t>(j)) * k;
    for (int64_t c = begin; c < k; ++c) x[c] -= static_cast<float>(e * u[c]);
  }
}

// The group of a row from column `first` on: its numbers in place of the weights, its bytes behind `out`.
void code_group(RowCoder& coder, std::span<float> row, int64_t first, int64_t width, std::span<const float> importance,
                std::span<const double> factor, std::string& out) {
  const auto k = static_cast<int64_t>(row.size());
  const std::span<float> x = row.subspan(static_cast<size_t>(first), static_cast<size_t>(width));
  coder.fit(x, importance.subspan(static_cast<size_t>(first), static_cast<size_t>(width)));
  double errors[kMostOfGroup];
  for (int64_t j = 0; j < width; ++j) {
    const auto at = static_cast<size_t>(j);
    const float number = coder.code(at, x[at]);
    if (!factor.empty()) {
      const double* u = factor.data() + (first + j) * k + first;
      errors[j] = static_cast<double>(x[at] - number) / u[j];
      for (int64_t c = j + 1; c < width; ++c) x[static_cast<size_t>(c)] -= static_cast<float>(errors[j] * u[c]);
    }
    x[at] = number;
  }
  coder.end_group(out);
  if (!factor.empty()) feed_back(row, first, std::span(errors, static_cast<size_t>(width)), factor, first + width);
}

}  // namespace

std::vector<double> error_factor(std::span<const double> moments, int64_t k, double damping) {
  TERN_CHECK(static_cast<int64_t>(moments.size()) == k * k, "error_factor: {} moments of {} columns", moments.size(),
             k);
  double mean = 0;
  for (int64_t i = 0; i < k; ++i) mean += moments[static_cast<size_t>(i * k + i)] / static_cast<double>(k);
  // H = RRᵀ with R upper is the Cholesky form of H with rows and columns in reverse; then U = R⁻¹.
  std::vector<double> a(moments.size());
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < k; ++j) {
      double h = moments[static_cast<size_t>((k - 1 - i) * k + k - 1 - j)];
      if (i == j) h = (h == 0 ? 1 : h) + damping * mean;
      a[static_cast<size_t>(i * k + j)] = h;
    }
  if (!cholesky(a, k))
    throw Error(ErrorKind::usage, "the inputs of a layer do not tell its columns apart; more --data");
  std::vector<double> r(moments.size(), 0.0);
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = i; j < k; ++j)
      r[static_cast<size_t>(i * k + j)] = a[static_cast<size_t>((k - 1 - j) * k + k - 1 - i)];
  return inverse_of_upper(r, k);
}

std::vector<float> importance_of(std::span<const double> factor, int64_t k) {
  std::vector<float> importance(static_cast<size_t>(k), 1.0f);
  if (factor.empty()) return importance;
  for (int64_t j = 0; j < k; ++j) {
    const double u = factor[static_cast<size_t>(j * k + j)];
    importance[static_cast<size_t>(j)] = static_cast<float>(1 / (u * u));
  }
  return importance;
}

std::vector<std::byte> gptq_rows(WeightType type, const std::function<std::unique_ptr<RowCoder>()>& make_coder,
                                 std::span<float> rows, int64_t n, int64_t k, std::span<const double> factor) {
  const int64_t width = row_of(type).block_elements;
  TERN_CHECK(static_cast<int64_t>(rows.size()) == n * k && fills_blocks(type, k) && width <= kMostOfGroup,
             "gptq_rows: {} × {} of {}", n, k, name_of(type));
  TERN_CHECK(factor.empty() || static_cast<int64_t>(factor.size()) == k * k, "gptq_rows: a factor of {}",
             factor.size());
  const std::vector<float> importance = importance_of(factor, k);
  const int64_t row_bytes = stored_bytes(type, 1, k);
  std::vector<std::byte> blocks(static_cast<size_t>(n * row_bytes));
#pragma omp parallel
  {
    const std::unique_ptr<RowCoder> coder = make_coder();
    std::string out;
#pragma omp for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      out.clear();
      const std::span<float> row = rows.subspan(static_cast<size_t>(r * k), static_cast<size_t>(k));
      coder->begin_row(row, importance, out);
      for (int64_t first = 0; first < k; first += width) code_group(*coder, row, first, width, importance, factor, out);
      std::memcpy(blocks.data() + r * row_bytes, out.data(), static_cast<size_t>(row_bytes));
    }
  }
  return blocks;
}

std::vector<std::byte> gptq_blocks(WeightType type, std::span<float> rows, int64_t n, int64_t k,
                                   std::span<const double> factor) {
  return gptq_rows(
      type, [type] { return block_coder(type); }, rows, n, k, factor);
}

}  // namespace tern
