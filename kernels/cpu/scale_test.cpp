#include "kernels/cpu/scale.h"

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

TEST(Scale, MultipliesEveryElement) {
  for (const int64_t n : {1, 7, 31, 33, 1000, 100'003}) {
    const auto x = random_values<float>("x", n);
    const auto halves = random_values<bf16>("x", n);
    Guarded<float> y(x);
    Guarded<bf16> half(halves);
    scale_elements<float>(0.3, y.span());
    scale_elements<bf16>(0.3, half.span());
    std::vector<double> want = doubles(x), want_half = doubles(halves);
    scale_elements<double>(0.3, want);
    scale_elements<double>(0.3, want_half);
    EXPECT_TRUE(is_close(y, want, {.relative = 2 * kRoundoff<float>}));
    EXPECT_TRUE(is_close(half, want_half, {.relative = kRoundoff<bf16> + kRoundoff<float>}));
    EXPECT_TRUE(y.guards_intact() && half.guards_intact());
  }
}

}  // namespace
}  // namespace tern
