// DualGPM and the directions of new tasks, on inputs whose spans are known.
#include "adapt/input_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/rng.h"
#include "kernels/lapack/product.h"
#include "kernels/lapack/symmetric_eigen.h"
#include "model/linear.h"

namespace tern {
namespace {

using Matrix = std::vector<double>;

Matrix random_matrix(int64_t count, uint64_t seed) {
  Matrix m(static_cast<size_t>(count));
  for (size_t i = 0; i < m.size(); ++i) m[i] = random_normal({seed, 7}, i);
  return m;
}

// n inputs of d numbers within a space of `span` dimensions.
Matrix inputs(int64_t n, int64_t d, int64_t span, uint64_t seed) {
  return product(random_matrix(n * span, seed), random_matrix(span * d, seed + 100), n, span, d);
}

Matrix covariance(const Matrix& x, int64_t d) {
  const int64_t n = static_cast<int64_t>(x.size()) / d;
  Matrix c(static_cast<size_t>(d * d));
  for (int64_t r = 0; r < n; ++r)
    for (int64_t i = 0; i < d; ++i)
      for (int64_t j = 0; j < d; ++j)
        c[static_cast<size_t>(i * d + j)] +=
            x[static_cast<size_t>(r * d + i)] * x[static_cast<size_t>(r * d + j)] / static_cast<double>(n);
  return c;
}

double largest(const Matrix& m) {
  double most = 0;
  for (const double x : m) most = std::max(most, std::abs(x));
  return most;
}

Matrix identity_minus(const Matrix& m, int64_t n) {
  Matrix result = m;
  for (int64_t i = 0; i < n; ++i) result[static_cast<size_t>(i * n + i)] -= 1;
  return result;
}

// I - Q: the projector onto what is protected.
Matrix protector(const InputMemory& memory) {
  Matrix eye(static_cast<size_t>(memory.dim * memory.dim));
  for (int64_t i = 0; i < memory.dim; ++i) eye[static_cast<size_t>(i * memory.dim + i)] = 1;
  Matrix p = free_part(memory, eye);
  for (size_t i = 0; i < p.size(); ++i) p[i] = eye[i] - p[i];
  return p;
}

TEST(SymmetricEigen, VectorsAreOrthonormalAndMakeTheMatrixAgain) {
  for (const int64_t n : {1, 2, 7, 31, 33}) {
    const Matrix x = random_matrix(n * n, static_cast<uint64_t>(n)), m = product_transposed(x, x, n, n, n);
    const SymmetricEigen e = symmetric_eigen(m, n);
    EXPECT_LT(largest(identity_minus(product_transposed(e.vectors, e.vectors, n, n, n), n)), 1e-13);
    Matrix scaled = e.vectors, again(m.size());
    for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= e.values[i / static_cast<size_t>(n)];
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t k = 0; k < n; ++k)
          again[static_cast<size_t>(i * n + j)] +=
              e.vectors[static_cast<size_t>(k * n + i)] * scaled[static_cast<size_t>(k * n + j)];
    for (size_t i = 0; i < m.size(); ++i) EXPECT_NEAR(again[i], m[i], 1e-12 * e.values[0]);
    EXPECT_TRUE(std::ranges::is_sorted(e.values, std::greater<>()));
  }
}

TEST(InputMemory, TheThresholdRisesEvenlyFromItsFirstValue) {
  EXPECT_DOUBLE_EQ(energy_threshold(0.95, 1, 0, 10), 0.95);
  EXPECT_DOUBLE_EQ(energy_threshold(0.95, 1, 5, 10), 0.975);
  EXPECT_DOUBLE_EQ(energy_threshold(0.9, 0.98, 3, 4), 0.96);
}

// Energies 8, 4, 2, 1, 1 of 16: half, three quarters, seven eighths, ...
TEST(InputMemory, TheFirstTaskKeepsWhatReachesTheThresholdAndTheCodeOneLess) {
  Matrix c(25);
  const double energies[] = {8, 4, 2, 1, 1};
  for (size_t i = 0; i < 5; ++i) c[i * 5 + i] = energies[i];
  const auto kept = [&](double threshold, InfloraMode mode) {
    InputMemory memory{.dim = 5};
    remember(memory, c, threshold, mode);
    return memory.protected_dim();
  };
  EXPECT_EQ(kept(0.5, InfloraMode::paper), 1);
  EXPECT_EQ(kept(0.76, InfloraMode::paper), 3);
  EXPECT_EQ(kept(0.76, InfloraMode::code), 1) << "fourth powers: 64, 16, 4, 1, 1 of 86; 64/86 < 0.76 <= 80/86";
  EXPECT_EQ(kept(0.94, InfloraMode::code), 2);
  EXPECT_EQ(kept(0.1, InfloraMode::code), 1) << "at least one";
}

class InputMemoryModes : public testing::TestWithParam<InfloraMode> {};
INSTANTIATE_TEST_SUITE_P(Modes, InputMemoryModes, testing::Values(InfloraMode::paper, InfloraMode::code),
                         [](const auto& mode) { return std::string(name_of(mode.param)); });

TEST_P(InputMemoryModes, NewDirectionsAreFreeOfOldInputs) {
  const int64_t d = 33, rank = 5;
  InputMemory memory{.dim = d};
  int64_t before = 0;
  for (int64_t task = 0; task < 6; ++task) {
    const Matrix c = covariance(inputs(60, d, 7, static_cast<uint64_t>(task) + 1), d);
    const Matrix b = task_directions(memory, c, rank, GetParam());
    EXPECT_LE(largest(product(b, protector(memory), rank, d, d)), 1e-12) << "task " << task;
    const double norm = GetParam() == InfloraMode::paper ? 1 : 1 / std::sqrt(3.0);
    const Matrix squares = product_transposed(b, b, rank, d, rank);
    for (int64_t i = 0; i < rank; ++i)
      if (const double own = squares[static_cast<size_t>(i * rank + i)]; own > 0) {
        EXPECT_NEAR(own, norm * norm, 1e-12);
      }
    remember(memory, c, energy_threshold(0.9, 1, task, 6), GetParam());
    const int64_t n = memory.num_rows();
    EXPECT_LE(2 * n, d) << "one of the two halves";
    EXPECT_LT(largest(identity_minus(product_transposed(memory.rows, memory.rows, n, d, n), n)), 1e-12);
    EXPECT_GE(memory.protected_dim(), before) << "what is protected stays so";
    before = memory.protected_dim();
  }
  EXPECT_TRUE(GetParam() == InfloraMode::code || memory.keeps_free);
}

// Six tasks of 7 dimensions in 33 with a threshold of 1: 7, 14, then 21 > 33/2.
TEST(InputMemory, SwitchesToWhatIsFreeBeyondHalf) {
  const int64_t d = 33;
  InputMemory memory{.dim = d}, plain{.dim = d};
  for (int64_t task = 0; task < 4; ++task) {
    const Matrix c = covariance(inputs(60, d, 7, static_cast<uint64_t>(task) + 1), d);
    remember(memory, c, 1 - 1e-12, InfloraMode::paper);
    remember(plain, c, 1 - 1e-12, InfloraMode::paper);
    EXPECT_EQ(memory.keeps_free, task >= 2);
    EXPECT_EQ(memory.protected_dim(), 7 * (task + 1));
    // The same space kept the other way round: both have the same projector.
    if (plain.keeps_free && task == 2) {
      const Matrix p = protector(memory);
      plain.rows = symmetric_eigen(p, d).vectors;
      plain.rows.resize(static_cast<size_t>(21 * d));
      plain.keeps_free = false;
      const Matrix other = protector(plain);
      for (size_t i = 0; i < p.size(); ++i) EXPECT_NEAR(other[i], p[i], 1e-12);
      plain = memory;
    }
  }
}

TEST_P(InputMemoryModes, RowsWithoutEnergyAreZero) {
  const int64_t d = 12;
  InputMemory memory{.dim = d};
  const Matrix first = covariance(inputs(30, d, 4, 1), d);
  for (int time = 0; time < 2; ++time)
    remember(memory, first, 1 - 1e-12, GetParam());  // the code's first leaves one out
  const Matrix same = task_directions(memory, first, 3, GetParam());
  EXPECT_EQ(largest(same), 0) << "old inputs leave no direction";
  const Matrix two = task_directions(memory, covariance(inputs(30, d, 2, 9), d), 3, GetParam());
  EXPECT_GT(largest(Matrix(two.begin() + d, two.begin() + 2 * d)), 0.1);
  EXPECT_EQ(largest(Matrix(two.begin() + 2 * d, two.end())), 0) << "two inputs have two directions";
}

// y += A_t·(B_t·x) through the branch that models run.
TEST(InputMemory, ABranchOfFreeDirectionsDoesNotTouchOldInputs) {
  const int64_t d = 20, out = 6, rank = 4;
  InputMemory memory{.dim = d};
  const Matrix old = inputs(40, d, 8, 3), fresh = inputs(40, d, 8, 4);
  remember(memory, covariance(old, d), 1 - 1e-12, InfloraMode::paper);
  const Matrix given = task_directions(memory, covariance(fresh, d), rank, InfloraMode::paper);
  const auto change = [&]<class T>(const Matrix& x, T) {
    constexpr DType type = sizeof(T) == 8 ? DType::f64 : DType::f32;
    Arena arena;
    const auto tensor = [&](const Matrix& m, Shape shape) {
      const Tensor t = arena.allocate(type, shape, MemoryClass::weights);
      for (size_t i = 0; i < m.size(); ++i) t.span<T>()[i] = static_cast<T>(m[i]);
      return t;
    };
    Linear linear{
        .weight = DenseWeight{arena.zeros(type, {out, d}, MemoryClass::weights)}, .bias = {}, .out = out, .in = d};
    linear.branches.push_back({.module = AdaptedModule::out,
                               .row_begin = 0,
                               .row_end = out,
                               .rank = rank,
                               .scale = 1,
                               .a = tensor(given, {rank, d}),
                               .b = tensor(random_matrix(out * rank, 5), {out, rank})});
    const int64_t n = static_cast<int64_t>(x.size()) / d;
    const Tensor y = arena.zeros(type, {n, out}, MemoryClass::activations);
    linear_forward(linear, tensor(x, {n, d}), y, {arena});
    double most = 0;
    for (const T v : y.span<T>()) most = std::max(most, std::abs(static_cast<double>(v)));
    return most;
  };
  const double size = largest(old);
  EXPECT_LT(change(old, 0.0), 1e-12 * size);
  EXPECT_GT(change(fresh, 0.0), 0.1);
  // In f32 B_t is rounded: |b·x| ≤ 2⁻²⁴·|b|·|x| of each row, and the products round d + rank times more.
  const double bound = static_cast<double>(d + rank) * 0x1p-24 * size * std::sqrt(static_cast<double>(d)) *
                       static_cast<double>(rank) * largest(random_matrix(out * rank, 5));
  EXPECT_LT(change(old, 0.0f), bound);
}

}  // namespace
}  // namespace tern
