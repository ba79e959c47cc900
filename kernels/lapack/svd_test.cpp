// Orthogonal factors: what they multiply to, that they are orthogonal, and what is refused.
#include "kernels/lapack/svd.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

using Matrix = std::vector<double>;
constexpr int64_t kSvdShapes[][2] = {{1, 1}, {1, 7}, {7, 1}, {5, 5}, {13, 4}, {4, 13}, {33, 32}};

Matrix random_matrix(int64_t count, uint64_t seed) {
  Matrix m(static_cast<size_t>(count));
  for (size_t i = 0; i < m.size(); ++i) m[i] = random_normal({seed, 7}, i);
  return m;
}
// a·b of (m, k) and (k, n), plainly.
Matrix times(const Matrix& a, const Matrix& b, int64_t m, int64_t k, int64_t n) {
  Matrix c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i)
    for (int64_t p = 0; p < k; ++p)
      for (int64_t j = 0; j < n; ++j)
        c[static_cast<size_t>(i * n + j)] += a[static_cast<size_t>(i * k + p)] * b[static_cast<size_t>(p * n + j)];
  return c;
}
Matrix transposed(const Matrix& x, int64_t rows, int64_t width) {
  Matrix t(x.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < width; ++j) t[static_cast<size_t>(j * rows + i)] = x[static_cast<size_t>(i * width + j)];
  return t;
}
void expect_identity(const Matrix& x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) EXPECT_NEAR(x[static_cast<size_t>(i * n + j)], i == j ? 1 : 0, 1e-13);
}
void expect_near(const Matrix& got, const Matrix& want, double tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << i;
}

TEST(ThinSvd, MultipliesBackAndIsOrthogonal) {
  for (const auto& [m, n] : kSvdShapes) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n));
    const int64_t k = std::min(m, n);
    const Matrix x = random_matrix(m * n, 1);
    const ThinSvd svd = thin_svd(x, m, n);
    Matrix scaled = svd.u;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) scaled[static_cast<size_t>(i * k + j)] *= svd.s[static_cast<size_t>(j)];
    expect_near(times(scaled, svd.vt, m, k, n), x, 1e-12);
    expect_identity(times(transposed(svd.u, m, k), svd.u, k, m, k), k);
    expect_identity(times(svd.vt, transposed(svd.vt, k, n), k, n, k), k);
    for (size_t i = 1; i < svd.s.size(); ++i) EXPECT_LE(svd.s[i], svd.s[i - 1]);
    for (int64_t i = 0; i < k; ++i) {
      double largest = 0;
      for (int64_t j = 0; j < n; ++j)
        if (const double v = svd.vt[static_cast<size_t>(i * n + j)]; std::abs(v) > std::abs(largest)) largest = v;
      EXPECT_GT(largest, 0);
    }
  }
}

TEST(ThinQr, MultipliesBackAndIsOrthogonal) {
  for (const auto& [m, n] : kSvdShapes) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n));
    const int64_t k = std::min(m, n);
    const Matrix x = random_matrix(m * n, 2);
    const ThinQr qr = thin_qr(x, m, n);
    expect_near(times(qr.q, qr.r, m, k, n), x, 1e-12);
    expect_identity(times(transposed(qr.q, m, k), qr.q, k, m, k), k);
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < i; ++j) EXPECT_EQ(qr.r[static_cast<size_t>(i * n + j)], 0);
  }
}

TEST(ThinSvd, RefusesWhatIsNotFinite) {
  for (const double x : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_THROW(thin_svd({1, x}, 1, 2), Error);
    EXPECT_THROW(thin_qr({1, x}, 2, 1), Error);
  }
  EXPECT_TRUE(thin_svd({}, 0, 3).s.empty());
}

}  // namespace
}  // namespace tern
