#include "kernels/cpu/newton_schulz.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/newton_schulz_ref.h"

namespace tern {
namespace {

// Values are at most about 1; five steps of three products each round some hundred times at the size of the largest sums.
TEST(NewtonSchulz, MatchesTheFormulaInDoublesOnAwkwardSizes) {
  for_each_isa([] {
    for (const auto& [rows, columns] :
         {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {7, 1}, {5, 12}, {12, 5}, {33, 31}, {31, 100}, {100, 33}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
      const auto x = random_values<float>("x", rows * columns);
      Guarded<float> got(x), temporary(static_cast<size_t>(newton_schulz_elements(rows, columns)));
      std::vector<double> want = doubles(x);
      newton_schulz(got.span(), rows, columns, temporary.span());
      newton_schulz_ref(want, rows, columns);
      EXPECT_TRUE(is_close(got, want, {.absolute = 2e-5}));
      EXPECT_TRUE(temporary.guards_intact());
    }
  });
}

// A diagonal matrix keeps its directions: each value goes through the scalar polynomial.
TEST(NewtonSchulz, SingularValuesComeNearOne) {
  constexpr int64_t kSide = 50;
  std::vector<double> x(kSide * kSide);
  double squares = 0;
  for (int64_t i = 0; i < kSide; ++i)
    squares += std::pow(x[static_cast<size_t>(i * kSide + i)] = 1 - 0.019 * static_cast<double>(i), 2);
  const std::vector<double> before = x;
  newton_schulz_ref(x, kSide, kSide);
  for (int64_t i = 0; i < kSide; ++i) {
    const auto at = static_cast<size_t>(i * kSide + i);
    double want = before[at] / std::sqrt(squares);
    for (int step = 0; step < 5; ++step) want = 3.4445 * want - 4.7750 * std::pow(want, 3) + 2.0315 * std::pow(want, 5);
    EXPECT_NEAR(x[at], want, 1e-12);
    if (before[at] >= 0.01 * std::sqrt(squares)) { EXPECT_TRUE(0.68 < x[at] && x[at] < 1.14) << x[at]; }
  }
}

TEST(NewtonSchulz, ZerosStayZerosAndThreadsChangeNoBit) {
  for_each_isa([] {
    std::vector<float> zeros(35), temporary(static_cast<size_t>(newton_schulz_elements(5, 7)));
    newton_schulz(zeros, 5, 7, temporary);
    EXPECT_EQ(zeros, std::vector<float>(35));
    const auto x = random_values<float>("x", 300 * 200);
    std::vector<float> one = x, two = x, work(static_cast<size_t>(newton_schulz_elements(200, 300)));
    with_threads(1, [&] { newton_schulz(one, 200, 300, work); });
    with_threads(2, [&] { newton_schulz(two, 200, 300, work); });
    EXPECT_EQ(one, two);
  });
}

}  // namespace
}  // namespace tern
