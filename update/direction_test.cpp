// The direction of a step: a function of seed, step, name and place.
#include "update/direction.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/threads_testing.h"
#include "tensor/arena.h"
#include "update/rule_testing.h"

namespace tern {
namespace {

constexpr Direction kSomeStep{.seed = 0x123456789abcdefu, .step = 7};

// Whole blocks of Philox and what is left of one; enough for several threads.
TEST(Direction, MovesEachElementByItsOwnNumberInAnyTypeAndOnAnyThreads) {
  Arena arena;
  for (const int64_t count : {1, 3, 4, 5, 70'001})
    for (const DType from : {DType::f32, DType::f64})
      for (const DType to : {DType::f32, DType::f64, DType::bf16})
        for (const int threads : {1, 2, 3}) {
          const Tensor w = arena.allocate(from, {count}, MemoryClass::weights);
          for (int64_t i = 0; i < count; ++i) set_value(w, i, 0.01 * static_cast<double>(i % 97) - 0.3);
          const Tensor moved = arena.allocate(to, {count}, MemoryClass::weights);
          const Tensor alone = arena.allocate(to, {count}, MemoryClass::weights);
          with_threads(threads, [&] {
            move_along(kSomeStep, "layers.0.mlp.up.weight", -1e-3, w, moved);
            put_direction(kSomeStep, "layers.0.mlp.up.weight", 0.37, alone);
          });
          const Tensor want = arena.allocate(to, {2}, MemoryClass::weights);
          int64_t different = 0;
          for (int64_t i = 0; i < count; ++i) {
            const double z = direction_at(kSomeStep, "layers.0.mlp.up.weight", i);
            set_value(want, 0, value_at(w, i) + -1e-3 * z), set_value(want, 1, 0.37 * z);
            different += value_at(moved, i) != value_at(want, 0) || value_at(alone, i) != value_at(want, 1);
          }
          EXPECT_EQ(different, 0) << count << " " << name_of(from) << " to " << name_of(to) << " on " << threads;
        }
}

// Mean, variance, fourth moment; nothing in common with another step, parameter, seed, or with the neighbour.
TEST(Direction, IsStandardNormalAndUnlikeAnyOther) {
  constexpr int64_t kCount = 200'000;
  const auto drawn = [](const Direction& d, const char* name) {
    std::vector<double> z;
    for (int64_t i = 0; i < kCount; ++i) z.push_back(direction_at(d, name, i));
    return z;
  };
  const auto mean_product = [](const std::vector<double>& a, const std::vector<double>& b, int64_t shift) {
    double sum = 0;
    for (int64_t i = 0; i + shift < kCount; ++i) sum += a[static_cast<size_t>(i)] * b[static_cast<size_t>(i + shift)];
    return sum / static_cast<double>(kCount - shift);
  };
  const std::vector<double> z = drawn(kSomeStep, "a");
  std::vector<double> squares, ones(z.size(), 1);
  for (const double x : z) squares.push_back(x * x);
  const double bound = 6 / std::sqrt(static_cast<double>(kCount));  // six deviations
  EXPECT_NEAR(mean_product(z, ones, 0), 0, bound);
  EXPECT_NEAR(mean_product(z, z, 0), 1, bound * std::sqrt(2.0));
  EXPECT_NEAR(mean_product(squares, squares, 0), 3, bound * std::sqrt(96.0));
  for (const int64_t shift : {1, 2, 3, 4}) EXPECT_NEAR(mean_product(z, z, shift), 0, bound);
  EXPECT_NEAR(mean_product(z, drawn(kSomeStep, "b"), 0), 0, bound);
  EXPECT_NEAR(mean_product(z, drawn({kSomeStep.seed, 8}, "a"), 0), 0, bound);
  EXPECT_NEAR(mean_product(z, drawn({kSomeStep.seed + 1, 7}, "a"), 0), 0, bound);
}

}  // namespace
}  // namespace tern
