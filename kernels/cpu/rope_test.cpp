#include "kernels/cpu/rope.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/rope_ref.h"

namespace tern {
namespace {

constexpr int64_t kPositions = 50;
struct Tables {
  std::vector<float> cos, sin;
};
Tables tables_of(int64_t half) {
  Tables t;
  for (int64_t p = 0; p < kPositions; ++p)
    for (int64_t i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(p) * std::pow(100.0, -static_cast<double>(i) / static_cast<double>(half));
      t.cos.push_back(static_cast<float>(std::cos(angle)));
      t.sin.push_back(static_cast<float>(std::sin(angle)));
    }
  return t;
}
std::vector<int32_t> positions_of(int64_t rows) {
  std::vector<int32_t> p;
  for (int64_t r = 0; r < rows; ++r) p.push_back(static_cast<int32_t>((r * 7 + 3) % kPositions));
  return p;
}
constexpr RopeShape kRopeShapes[] = {{.rows = 1, .row_stride = 2, .heads = 1, .head_dim = 2, .rotary_dim = 2},
                                     {.rows = 7, .row_stride = 70, .heads = 3, .head_dim = 14, .rotary_dim = 14},
                                     {.rows = 5, .row_stride = 100, .heads = 3, .head_dim = 33, .rotary_dim = 10},
                                     {.rows = 4, .row_stride = 256, .heads = 4, .head_dim = 64, .rotary_dim = 64},
                                     {.rows = 3, .row_stride = 400, .heads = 3, .head_dim = 128, .rotary_dim = 96}};

template <class T>
void matches(const RopeShape& shape, bool inverse) {
  const auto t = tables_of(shape.rotary_dim / 2);
  const auto x = random_values<T>("x", shape.rows * shape.row_stride);
  const auto positions = positions_of(shape.rows);
  auto want = doubles(x);
  rope_ref(shape, positions, doubles(t.cos), doubles(t.sin), inverse, want.data());
  Guarded<T> got(x);
  rope<T>(shape, positions, t.cos, t.sin, inverse, got.data());
  EXPECT_TRUE(is_close(got, want, {.absolute = 5 * 3 * kRoundoff<float>, .relative = kRoundoff<T>}));
  for (int64_t row = 0; row < shape.rows; ++row)  // what is not turned is not touched
    for (int64_t i = 0; i < shape.row_stride; ++i)
      if (i >= shape.heads * shape.head_dim || i % shape.head_dim >= shape.rotary_dim) {
        const auto at = static_cast<size_t>(row * shape.row_stride + i);
        ASSERT_EQ(value_of(got.values()[at]), value_of(x[at]));
      }
}

TEST(Rope, MatchesRefAndLeavesTheRest) {
  for_each_isa([] {
    for (const RopeShape& shape : kRopeShapes)
      for (const bool inverse : {false, true}) matches<float>(shape, inverse), matches<bf16>(shape, inverse);
  });
}

// ⟨Rx, y⟩ = ⟨x, R⁻¹y⟩: the backward is the transpose of the forward.
TEST(Rope, InverseIsTheTransposeOfTheForward) {
  for_each_isa([] {
    for (const RopeShape& shape : kRopeShapes) {
      const auto t = tables_of(shape.rotary_dim / 2);
      const auto positions = positions_of(shape.rows);
      const auto x = random_values<float>("x", shape.rows * shape.row_stride),
                 y = random_values<float>("y", shape.rows * shape.row_stride);
      auto turned = x, back = y;
      rope<float>(shape, positions, t.cos, t.sin, false, turned.data());
      rope<float>(shape, positions, t.cos, t.sin, true, back.data());
      double left = 0, right = 0, size = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        left += static_cast<double>(turned[i]) * y[i];
        right += static_cast<double>(x[i]) * back[i];
        size += std::abs(static_cast<double>(x[i]) * back[i]) + std::abs(static_cast<double>(turned[i]) * y[i]);
      }
      EXPECT_NEAR(left, right, 4 * kRoundoff<float> * size);
      EXPECT_NE(turned, x);
    }
  });
}

TEST(Rope, ThreadsChangeNoBit) {
  for_each_isa([] {
    const RopeShape shape = {.rows = 600, .row_stride = 200, .heads = 3, .head_dim = 64, .rotary_dim = 62};
    const auto t = tables_of(31);
    const auto x = random_values<float>("x", shape.rows * shape.row_stride);
    Guarded<float> one(x), two(x);
    with_threads(1, [&] { rope<float>(shape, positions_of(600), t.cos, t.sin, false, one.data()); });
    with_threads(2, [&] { rope<float>(shape, positions_of(600), t.cos, t.sin, false, two.data()); });
    EXPECT_TRUE(same_bits(two.values(), one.values()));
  });
}

}  // namespace
}  // namespace tern
