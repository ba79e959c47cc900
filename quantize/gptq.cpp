#include "quantize/gptq.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "base/error.h"
#include "quantize/block_fit.h"

namespace tern {
namespace {

constexpr auto kBlock = static_cast<int64_t>(kBlockWeights);

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

// Takes from the columns [begin, k) of a row what the errors of a block's columns cost there.
void feed_back(float* row, int64_t k, int64_t first, const double (&errors)[kBlock], std::span<const double> factor,
               int64_t begin) {
  for (int64_t j = 0; j < kBlock; ++j) {
    const double e = errors[j];
    const double* u = factor.data() + (first + j) * k;
    for (int64_t c = begin; c < k; ++c) row[c] -= static_cast<float>(e * u[c]);
  }
}

// One block of one row: its numbers in place of the weights, its bytes behind `out`.
void code_block(WeightType type, float* row, int64_t k, int64_t first, std::span<const double> factor,
                std::string& out) {
  const BlockLevels levels = levels_of(type);
  float importance[kBlock];
  for (int64_t j = 0; j < kBlock; ++j) {
    const double u = factor.empty() ? 1 : factor[static_cast<size_t>((first + j) * k + first + j)];
    importance[j] = static_cast<float>(1 / (u * u));
  }
  float* x = row + first;
  BlockCodes block = fit_block(type, std::span<const float, kBlockWeights>(x, kBlockWeights),
                               std::span<const float, kBlockWeights>(importance, kBlockWeights));
  double errors[kBlock];
  for (int64_t j = 0; j < kBlock; ++j) {
    block.codes[j] = static_cast<uint8_t>(nearest_code(block, levels, x[j]));
    const float number = number_of(block, levels, block.codes[j]);
    if (!factor.empty()) {
      const double* u = factor.data() + (first + j) * k + first;
      errors[j] = static_cast<double>(x[j] - number) / u[j];
      for (int64_t c = j + 1; c < kBlock; ++c) x[c] -= static_cast<float>(errors[j] * u[c]);
    }
    x[j] = number;
  }
  append_block(type, block, out);
  if (!factor.empty()) feed_back(row, k, first, errors, factor, first + kBlock);
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

std::vector<std::byte> gptq_blocks(WeightType type, std::span<float> rows, int64_t n, int64_t k,
                                   std::span<const double> factor) {
  TERN_CHECK(static_cast<int64_t>(rows.size()) == n * k && fills_blocks(type, k), "gptq_blocks: {} × {} of {}", n, k,
             name_of(type));
  TERN_CHECK(factor.empty() || static_cast<int64_t>(factor.size()) == k * k, "gptq_blocks: a factor of {}",
             factor.size());
  const int64_t row_bytes = stored_bytes(type, 1, k);
  std::vector<std::byte> blocks(static_cast<size_t>(n * row_bytes));
#pragma omp parallel
  {
    std::string out;
#pragma omp for schedule(static)
    for (int64_t r = 0; r < n; ++r) {
      out.clear();
      for (int64_t first = 0; first < k; first += kBlock) code_block(type, rows.data() + r * k, k, first, factor, out);
      std::memcpy(blocks.data() + r * row_bytes, out.data(), static_cast<size_t>(row_bytes));
    }
  }
  return blocks;
}

}  // namespace tern
