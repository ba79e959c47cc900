// Factors of matrices: orthonormal columns, products by hand, a mean that is exact where factors have all directions, and what is left out.
#include "update/low_rank.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>
#include <vector>

#include "comm/ranks_testing.h"
#include "update/outer.h"

namespace tern {
namespace {

std::vector<double> draw(int64_t count, uint64_t stream) {
  std::vector<double> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal({11, stream}, i);
  return x;
}

TEST(LowRank, ColumnsAreOrthonormalAlsoWhereTheyWereNot) {
  for (const int64_t rows : {1, 2, 7, 33, 200})
    for (const int64_t rank : {1, 2, 7, 33}) {
      if (rank > rows) continue;
      for (const char* kind : {"any", "zero", "equal", "tiny"}) {
        SCOPED_TRACE(std::string(kind) + " " + std::to_string(rows) + " " + std::to_string(rank));
        std::vector<double> f = draw(rows * rank, 1);
        for (size_t i = 0; i < f.size(); ++i) {
          if (kind[0] == 'z') f[i] = 0;
          if (kind[0] == 'e') f[i] = static_cast<double>(i / static_cast<size_t>(rank) + 1);
          if (kind[0] == 't') f[i] *= 1e-30;
        }
        std::vector<float> narrow(f.begin(), f.end());
        orthonormalize<double>(f, rows, rank, {3, 4});
        orthonormalize<float>(narrow, rows, rank, {3, 4});
        for (int64_t a = 0; a < rank; ++a)
          for (int64_t b = 0; b <= a; ++b) {
            double dot = 0, other = 0;
            for (int64_t row = 0; row < rows; ++row) {
              const auto i = static_cast<size_t>(row * rank + a), j = static_cast<size_t>(row * rank + b);
              dot += f[i] * f[j], other += static_cast<double>(narrow[i]) * static_cast<double>(narrow[j]);
            }
            EXPECT_NEAR(dot, a == b, 1e-12);
            EXPECT_NEAR(other, a == b, 1e-5);
          }
      }
    }
}

TEST(LowRank, WhatIsNotFiniteIsNotHidden) {
  std::vector<float> f(12, 1.0f);
  f[5] = INFINITY;
  orthonormalize<float>(f, 4, 3, {1, 1});
  EXPECT_TRUE(std::isnan(f[0]));
}

TEST(LowRank, ProductsByHand) {
  for (const auto& [rows, columns, rank] :
       std::vector<std::array<int64_t, 3>>{{1, 1, 1}, {7, 31, 3}, {33, 5, 2}, {300, 200, 4}}) {
    const LowRankForm form{rows, columns, rank};
    const std::vector<double> m = draw(rows * columns, 1), q = draw(columns * rank, 2), p = draw(rows * rank, 3);
    std::vector<double> right(q.size()), left(p.size()), out(m.size()), rest = m;
    times_right<double>(m, q, form, left);
    times_left<double>(m, p, form, right);
    expand<double>(p, q, form, out, rest);
    for (int64_t i = 0; i < rows; i += 13)
      for (int64_t k = 0; k < rank; ++k) {
        double sum = 0;
        for (int64_t j = 0; j < columns; ++j)
          sum += m[static_cast<size_t>(i * columns + j)] * q[static_cast<size_t>(j * rank + k)];
        ASSERT_NEAR(left[static_cast<size_t>(i * rank + k)], sum, 1e-11);
      }
    for (int64_t j = 0; j < columns; j += 11)
      for (int64_t k = 0; k < rank; ++k) {
        double sum = 0;
        for (int64_t i = 0; i < rows; ++i)
          sum += m[static_cast<size_t>(i * columns + j)] * p[static_cast<size_t>(i * rank + k)];
        ASSERT_NEAR(right[static_cast<size_t>(j * rank + k)], sum, 1e-11);
      }
    for (size_t i = 0; i < m.size(); ++i) ASSERT_NEAR(out[i] + rest[i], m[i], 1e-12);
  }
}

TEST(LowRank, WhatDoesNotPayTravelsWhole) {
  EXPECT_EQ(low_rank_form(Shape{130}, 4).factor_rank, 0);
  EXPECT_EQ(low_rank_form(Shape{5, 7}, 3).factor_rank, 0);  // 3·12 > 35
  EXPECT_EQ(low_rank_form(Shape{5, 7}, 2).factor_rank, 2);
  EXPECT_EQ(low_rank_form(Shape{1, 9}, 2).factor_rank, 0);
  EXPECT_EQ(low_rank_form(Shape{100, 100}, 1000).factor_rank, 0);
  const LowRankForm form = low_rank_form(Shape{4, 10, 6}, 2);  // experts: 4 rows of 60
  EXPECT_EQ(form.columns, 60);
  EXPECT_EQ(form.fresh(0), 120);
  EXPECT_EQ(form.fresh(1), 8);
}

// Of ranks with one matrix each: what all get plus the mean of what they left out is the mean of what they had, each time; and a matrix with no
// more directions than factors have columns is exact once they have found them.
TEST(LowRank, WhatAllGetAndWhatIsLeftAreTheMean) {
  constexpr int64_t kRows = 24, kColumns = 40;
  const std::vector<double> a = draw(kRows * 2, 5), b = draw(kColumns * 2, 6);
  for (const int ranks : {1, 3}) {
    const OuterConfig c{.every = 1, .codec = OuterCodec::power_sgd, .codec_rank = 3};
    std::mutex lock;
    std::vector<double> left(kRows * kColumns), common(left.size()), own(left.size());
    run_ranks(ranks, {}, [&](std::unique_ptr<Transport> transport) {
      Comm world(std::move(transport));
      Arena arena;
      const std::vector<Tensor> w{arena.zeros(DType::f64, {kRows, kColumns}, MemoryClass::weights)},
          scratch{arena.zeros(DType::f64, {kRows, kColumns}, MemoryClass::gradients)};
      const std::vector<int> units{0};
      OuterState state = make_outer_state(c, w, units, 1, world.rank(), ranks, arena);
      OuterStep outer{.config = c, .state = state};
      std::vector<double> sum(left.size());
      for (int64_t step = 1; step <= 6; ++step) {
        const std::span<double> x = w[0].span<double>();
        for (size_t i = 0; i < x.size(); ++i) {
          const size_t row = i / kColumns, column = i % kColumns;
          const double share = 1 + 0.5 * world.rank();
          const double change =
              share * (a[2 * row] * b[2 * column] + static_cast<double>(step) * a[2 * row + 1] * b[2 * column + 1]);
          x[i] -= change, sum[i] -= change;
        }
        outer_step(outer, step, w, scratch, world);
      }
      const std::lock_guard guard(lock);
      for (size_t i = 0; i < left.size(); ++i) {
        left[i] += state.error[0].span<double>()[i] / ranks, own[i] += sum[i] / ranks;
        if (world.rank() == 0) common[i] = state.common[0].span<double>()[i];
      }
    });
    double largest = 0, rest = 0;
    for (size_t i = 0; i < left.size(); ++i) {
      ASSERT_NEAR(common[i] - left[i], own[i], 1e-10);
      largest = std::max(largest, std::abs(own[i])), rest = std::max(rest, std::abs(left[i]));
    }
    EXPECT_LE(rest, 1e-9 * largest);
  }
}

}  // namespace
}  // namespace tern
