#include "kernels/lapack/orthonormal_bases.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

template <class T>
std::vector<T> random_numbers(int64_t count, uint64_t stream) {
  std::vector<T> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<T>(random_normal({11, stream}, i));
  return x;
}

template <class T>
double dot(const std::vector<T>& a, int64_t i, const std::vector<T>& b, int64_t j, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; ++k)
    sum +=
        static_cast<double>(a[static_cast<size_t>(i * n + k)]) * static_cast<double>(b[static_cast<size_t>(j * n + k)]);
  return sum;
}

template <class T>
double not_orthonormal(const std::vector<T>& rows, int64_t n) {
  double worst = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j) worst = std::max(worst, std::abs(dot(rows, i, rows, j, n) - (i == j)));
  return worst;
}

template <class T>
void check_eigenvectors(double bound) {
  for (const int64_t n : {1, 2, 7, 31, 33, 100}) {
    SCOPED_TRACE(n);
    const std::vector<T> x = random_numbers<T>(n * n, 1);
    std::vector<T> matrix(x.size()), values(static_cast<size_t>(n)), work(static_cast<size_t>(eigen_work_elements(n)));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) matrix[static_cast<size_t>(i * n + j)] = static_cast<T>(dot(x, i, x, j, n));
    std::vector<T> vectors = matrix;
    vectors.back() = NAN;
    EXPECT_THROW(eigenvectors<T>(vectors, n, values, work), Error) << "NaN";
    vectors = matrix;
    eigenvectors<T>(vectors, n, values, work);
    EXPECT_LE(not_orthonormal(vectors, n), bound);
    double worst = 0;
    for (int64_t i = 0; i < n; ++i) {
      if (i > 0) { EXPECT_LE(values[static_cast<size_t>(i)], values[static_cast<size_t>(i - 1)]); }
      T largest = 0;
      for (int64_t k = 0; k < n; ++k) {
        const T v = vectors[static_cast<size_t>(i * n + k)];
        if (std::abs(v) > std::abs(largest)) largest = v;
        worst = std::max(worst, std::abs(dot(matrix, k, vectors, i, n) -
                                         static_cast<double>(values[static_cast<size_t>(i)]) * static_cast<double>(v)));
      }
      EXPECT_GT(largest, 0) << "row " << i;
    }
    EXPECT_LE(worst, bound * static_cast<double>(values[0]));
  }
}

TEST(Lapack, EigenvectorsFallAndTheirLargestNumberIsPositive) {
  check_eigenvectors<float>(2e-5);
  check_eigenvectors<double>(1e-13);
}

template <class T>
void check_bases(double bound) {
  for (const int64_t n : {1, 5, 33, 70})
    for (const int64_t given : {int64_t{0}, int64_t{1}, n / 2, n}) {
      if (given > n) continue;
      SCOPED_TRACE(std::to_string(given) + " of " + std::to_string(n));
      const std::vector<T> first = random_numbers<T>(n * n, 2);
      std::vector<T> rows = first, work(static_cast<size_t>(basis_work_elements(n, given)));
      for (size_t i = static_cast<size_t>(given * n); i < rows.size(); ++i) rows[i] = NAN;  // nobody reads them
      orthonormal_rows<T>(rows, n, given, work);
      EXPECT_LE(not_orthonormal(rows, n), bound);
      // Vector i has no part in the rows behind it.
      for (int64_t i = 0; i < given; ++i)
        for (int64_t j = i + 1; j < n; ++j) EXPECT_LE(std::abs(dot(first, i, rows, j, n)), 30 * bound);
    }
}

TEST(Lapack, RowsSpanWhatWasGivenAndCompleteIt) {
  check_bases<float>(1e-5);
  check_bases<double>(1e-13);
}

// Vectors that depend on each other, and zeros, still give a basis.
TEST(Lapack, ABasisOfDependentVectorsIsOrthonormal) {
  constexpr int64_t kRows = 9;
  std::vector<float> rows(kRows * kRows, 0.0f), work(static_cast<size_t>(basis_work_elements(kRows, 4)));
  for (size_t i = 0; i < kRows; ++i) rows[i] = rows[kRows + i] = 1.0f + static_cast<float>(i);
  orthonormal_rows<float>(rows, kRows, 4, work);
  EXPECT_LE(not_orthonormal(rows, kRows), 1e-5);
}

}  // namespace
}  // namespace tern
