#include "kernels/cpu/symmetric_matmul.h"

#include "kernels/cpu/matmul.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

// Sides around panels and blocks of every instruction set, and such as have several groups of panels.
constexpr int64_t kSides[] = {1, 5, 16, 17, 63, 95, 96, 97, 130, 257, 700};

TEST(SymmetricMatmul, HasTheBitsOfTheWholeProducts) {
  for_each_isa([] {
    for (const int64_t side : kSides)
      for (const int64_t rows : {int64_t{1}, int64_t{33}, int64_t{150}}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(side));
        const auto square = static_cast<size_t>(side * side);
        const std::vector<float> x = random_values<float>("x", rows * side);
        Guarded<float> a(square), y(square);
        std::vector<float> want(square), want_y(square);
        multiply_tn<float>(x, x, rows, side, side, want);
        gram(x, rows, side, a.span());
        EXPECT_TRUE(std::ranges::equal(a.span(), want));
        multiply_nn<float>(want, want, side, side, side, false, want_y);
        square_symmetric(want, side, y.span());
        EXPECT_TRUE(std::ranges::equal(y.span(), want_y));
        EXPECT_TRUE(a.guards_intact() && y.guards_intact());
      }
  });
}

}  // namespace
}  // namespace tern
