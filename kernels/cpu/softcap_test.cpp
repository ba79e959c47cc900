#include "kernels/cpu/softcap.h"

#include <cmath>

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

TEST(Softcap, BoundsAndItsSlopeIsTheDerivative) {
  constexpr double kCap = 2.5;
  for (const int64_t n : {1, 7, 31, 33, 1000, 100'003}) {
    const auto x = random_values<float>("x", n, 3);
    Guarded<float> y(x);
    softcap_elements<float>(kCap, y.span());
    std::vector<double> want = doubles(x), slopes(want.size(), 1.0);
    softcap_elements<double>(kCap, want);
    softcap_gradients<double>(kCap, want, slopes);
    EXPECT_TRUE(is_close(y, want, {.relative = 4 * kRoundoff<float>}));
    Guarded<float> d(std::vector<float>(x.size(), 1.0f));
    softcap_gradients<float>(kCap, y.values(), d.span());
    EXPECT_TRUE(is_close(d, slopes, {.absolute = 8 * kRoundoff<float>}));
    for (size_t i = 0; i < x.size(); i += 97) {
      const double at = static_cast<double>(x[i]);
      EXPECT_NEAR(slopes[i], slope([&](double t) { return kCap * std::tanh((at + t) / kCap); }, 1e-5), 1e-8);
    }
  }
}

}  // namespace
}  // namespace tern
