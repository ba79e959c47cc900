// The elastic connection: the matrix that its words say, its transpose and the gradient of its factor, row by row.
#include "model/elastic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "model/model_testing.h"

namespace tern {
namespace {

// E (n, k) by its words.
double entry(int64_t n, int64_t k, int64_t i, int64_t j) {
  const int64_t g = std::gcd(n, k);
  return i / (n / g) == j / (k / g) ? static_cast<double>(g) / static_cast<double>(k) : 0;
}

struct Widths {
  int64_t k, n;
};
constexpr Widths kWidths[] = {{64, 8}, {8, 64}, {12, 8}, {7, 5}, {1, 3}, {6, 6}};

TEST(Elastic, IsTheMeanOfAGroupForAGroup) {
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16})
    for (const auto& [k, n] : kWidths) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " " << k << " " << n);
      const int64_t rows = 5;
      Arena arena;
      const auto random = [&](int64_t width, uint64_t seed) {
        const Tensor t = arena.allocate(dtype, {rows, width}, MemoryClass::activations);
        fill_normal(t, 1, seed);
        return t;
      };
      const Tensor x = random(k, 1), y = random(n, 2), was = random(n, 2), dx = random(k, 3), before = random(k, 3);
      add_elastic(0.3, x, y);
      add_elastic_gradient(0.3, was, dx);
      const double bound = dtype == DType::f64 ? 1e-14 : dtype == DType::f32 ? 1e-5 : 0.02;
      double product = 0;
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < n; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < k; ++j) sum += entry(n, k, i, j) * element(x, r * k + j);
          ASSERT_NEAR(element(y, r * n + i), element(was, r * n + i) + 0.3 * sum, bound);
          product += element(was, r * n + i) * sum;
        }
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < k; ++j) {
          double sum = 0;
          for (int64_t i = 0; i < n; ++i) sum += entry(n, k, i, j) * element(was, r * n + i);
          ASSERT_NEAR(element(dx, r * k + j), element(before, r * k + j) + 0.3 * sum, 2 * bound);
        }
      EXPECT_NEAR(elastic_product(was, x), product, 1e-12);
    }
}

// As of an expert to which no token goes.
TEST(Elastic, NoRowsGiveNothing) {
  Arena arena;
  const Tensor x = arena.zeros(DType::f32, {0, 96}, MemoryClass::activations),
               y = arena.zeros(DType::f32, {0, 40}, MemoryClass::activations);
  add_elastic(0.7, x, y);
  add_elastic_gradient(0.7, y, x);
  EXPECT_EQ(elastic_product(y, x), 0);
}

TEST(Elastic, ARowDependsOnNoOther) {
  Arena arena;
  const int64_t rows = 2000, k = 96, n = 40;  // by several threads
  const Tensor x = arena.allocate(DType::f32, {rows, k}, MemoryClass::activations),
               y = arena.zeros(DType::f32, {rows, n}, MemoryClass::activations),
               one = arena.zeros(DType::f32, {1, n}, MemoryClass::activations);
  fill_normal(x, 1, 1);
  add_elastic(0.7, x, y);
  for (const int64_t r : {0, 777, 1999}) {
    one.fill_zero();
    add_elastic(0.7, x.rows_view(r, r + 1), one);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(element(one, i), element(y, r * n + i));
  }
}

}  // namespace
}  // namespace tern
