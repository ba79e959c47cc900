#include "kernels/cpu/vector_math_table.h"

#include <algorithm>
#include <limits>

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

/// Distance of got from want in units in the last place of want's binade as an f32 (subnormals: of the smallest one).
double ulps(float got, double want) {
  const int exponent = std::max(std::ilogb(want == 0 ? 1e-300 : want), -126);
  return std::abs(static_cast<double>(got) - want) / std::ldexp(1.0, exponent - 23);
}

template <class Want>
double worst(void (*function)(const float*, int64_t, float*), double from, double to, Want want) {
  constexpr int64_t kPoints = 40001;  // odd: a tail
  std::vector<float> x(kPoints);
  for (int64_t i = 0; i < kPoints; ++i)
    x[i] = static_cast<float>(from + (to - from) * static_cast<double>(i) / (kPoints - 1));
  Guarded<float> y(x.size());
  function(x.data(), kPoints, y.data());
  EXPECT_TRUE(y.guards_intact());
  double most = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    const double error = ulps(y.values()[i], want(static_cast<double>(x[i])));
    if (!(error <= most)) most = error;  // NaN sticks
  }
  return most;
}

TEST(VectorMath, ExpIsWithinTwoUlps) {
  for_each_isa([] {
    const auto exp = TERN_TABLE_OF(vector_math_table, active_isa()).exp;
    const auto want = [](double x) { return std::exp(x); };
    EXPECT_LE(worst(exp, -1, 1, want), 2);
    EXPECT_LE(worst(exp, -87, 88.7, want), 2);
    EXPECT_LE(worst(exp, -103, -87, want), 2);  // subnormal results
    EXPECT_LE(worst(exp, -1e-3, 1e-3, want), 2);
  });
}

TEST(VectorMath, ExpKeepsTheLimits) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, 88.8f, 1e30f, -104.1f, -1e30f, NAN, 1e-30f, 88.72f};
  for_each_isa([&] {
    Guarded<float> y(x.size());
    TERN_TABLE_OF(vector_math_table, active_isa()).exp(x.data(), static_cast<int64_t>(x.size()), y.data());
    const auto v = y.values();
    EXPECT_EQ(v[0], 1);
    EXPECT_EQ(v[1], 1);
    for (const int i : {2, 4, 5}) EXPECT_EQ(v[i], kInf) << x[i];
    for (const int i : {3, 6, 7}) EXPECT_EQ(v[i], 0) << x[i];
    EXPECT_TRUE(std::isnan(v[8]));
    EXPECT_EQ(v[9], 1);
    EXPECT_TRUE(std::isfinite(v[10]));
  });
}

TEST(VectorMath, SigmoidIsWithinFourUlps) {
  for_each_isa([] {
    const auto sigmoid = TERN_TABLE_OF(vector_math_table, active_isa()).sigmoid;
    const auto want = [](double x) { return 1 / (1 + std::exp(-x)); };
    EXPECT_LE(worst(sigmoid, -10, 10, want), 4);
    EXPECT_LE(worst(sigmoid, -87, 87, want), 4);
    const float x[] = {NAN, -1e30f, 1e30f};
    float y[3];
    sigmoid(x, 3, y);
    EXPECT_TRUE(std::isnan(y[0]));
    EXPECT_EQ(y[1], 0);
    EXPECT_EQ(y[2], 1);
  });
}

}  // namespace
}  // namespace tern
