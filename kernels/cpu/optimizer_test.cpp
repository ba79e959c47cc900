#include "kernels/cpu/optimizer.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/optimizer_ref.h"

namespace tern {
namespace {

struct OptimizerCase {
  std::vector<float> weight, m, v;
  explicit OptimizerCase(int64_t n)
      : weight(random_values<float>("w", n)),
        m(random_values<float>("m", n, 0.1)),
        v(random_values<float>("v", n, 0.01)) {
    for (float& x : v) x = std::abs(x);
  }
};
std::vector<float> gradient_of(int step, int64_t n) { return random_values<float>("g" + std::to_string(step), n); }

TEST(Adamw, TenStepsMatchRefFromStateThatIsNotZero) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 31, 33, 1000}) {
      const OptimizerCase c(n);
      Guarded<float> w(c.weight), m(c.m), v(c.v);
      Guarded<bf16> compute(c.weight.size());
      auto want_w = doubles(c.weight), want_m = doubles(c.m), want_v = doubles(c.v);
      AdamwStep step = {.learning_rate = 1e-2,
                        .beta1 = 0.9,
                        .beta2 = 0.95,
                        .epsilon = 1e-8,
                        .weight_decay = 0.1,
                        .step = 0,
                        .gradient_scale = 0.7};
      for (step.step = 1; step.step <= 10; ++step.step) {
        const auto g = gradient_of(static_cast<int>(step.step), n);
        adamw_step(step, g, w.span(), m.span(), v.span(), compute.span());
        adamw_step_ref(step, doubles(g), want_w, want_m, want_v);
      }
      // ten steps: a few roundings of each number, the scalars' own included
      EXPECT_TRUE(is_close(m, want_m, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(v, want_v, {.absolute = 1e-7, .relative = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(w, want_w, {.absolute = 200 * kRoundoff<float>}));
      ASSERT_TRUE(compute.guards_intact());
      for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(compute.values()[i].bits, to_bf16(w.values()[i]).bits);
      Guarded<float> w2(c.weight), m2(c.m), v2(c.v), w3(c.weight), m3(c.m), v3(c.v);
      adamw_step(step, gradient_of(1, n), w2.span(), m2.span(), v2.span(), {});
      adamw_step(step, gradient_of(1, n), w3.span(), m3.span(), v3.span(), compute.span());
      EXPECT_TRUE(same_bits(w2.values(), w3.values()));
    }
  });
}

TEST(Adamw, ClearingTheGradientChangesNothingElse) {
  for_each_isa([] {
    for (const int64_t n : {1, 31, 1000}) {
      const OptimizerCase c(n);
      const AdamwStep step = {.learning_rate = 1e-2,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .step = 2,
                              .gradient_scale = 0.7};
      Guarded<float> w1(c.weight), m1(c.m), v1(c.v), w2(c.weight), m2(c.m), v2(c.v), g(gradient_of(1, n));
      adamw_step(step, gradient_of(1, n), w1.span(), m1.span(), v1.span(), {});
      adamw_step_and_clear(step, g.span(), w2.span(), m2.span(), v2.span(), {});
      EXPECT_TRUE(same_bits(w2.values(), w1.values()));
      EXPECT_TRUE(same_bits(m2.values(), m1.values()));
      EXPECT_TRUE(same_bits(v2.values(), v1.values()));
      EXPECT_TRUE(is_close(g, std::vector<double>(static_cast<size_t>(n)), {}));
    }
  });
}

TEST(Sgd, StepsMatchRefWithAndWithoutMomentum) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 31, 33, 1000})
      for (const double momentum : {0.0, 0.9}) {
        const OptimizerCase c(n);
        Guarded<float> w(c.weight), u(momentum > 0 ? c.m : std::vector<float>{});
        Guarded<bf16> compute(c.weight.size());
        auto want_w = doubles(c.weight), want_u = doubles(u.values());
        for (int step = 1; step <= 5; ++step) {
          const SgdStep s = {.learning_rate = 0.1, .momentum = momentum, .weight_decay = 0.01, .gradient_scale = 0.5};
          sgd_step(s, gradient_of(step, n), w.span(), u.span(), compute.span());
          sgd_step_ref(s, doubles(gradient_of(step, n)), want_w, want_u);
        }
        EXPECT_TRUE(is_close(w, want_w, {.absolute = 100 * kRoundoff<float>}));
        EXPECT_TRUE(is_close(u, want_u, {.absolute = 200 * kRoundoff<float>}));
        ASSERT_TRUE(compute.guards_intact());
        for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(compute.values()[i].bits, to_bf16(w.values()[i]).bits);
      }
  });
}

TEST(Lion, StepsMatchRefWithoutATie) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 31, 33, 1000}) {
      const OptimizerCase c(n);
      Guarded<float> w(c.weight), m(c.m);
      Guarded<bf16> compute(c.weight.size());
      auto want_w = doubles(c.weight), want_m = doubles(c.m);
      const LionStep s = {
          .learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1, .gradient_scale = 0.5};
      for (int step = 1; step <= 5; ++step) {
        Guarded<float> g(gradient_of(step, n));
        lion_step(s, g.span(), w.span(), m.span(), compute.span());
        lion_step_ref(s, doubles(gradient_of(step, n)), want_w, want_m);
        EXPECT_TRUE(is_close(g, std::vector<double>(static_cast<size_t>(n)), {}));
      }
      EXPECT_TRUE(is_close(w, want_w, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(m, want_m, {.absolute = 100 * kRoundoff<float>}));
      for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(compute.values()[i].bits, to_bf16(w.values()[i]).bits);
    }
    std::vector<float> w = {1}, m = {0}, g = {0};  // sign(0) is 0
    lion_step({.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0, .gradient_scale = 1}, g, w, m, {});
    EXPECT_EQ(w[0], 1);
  });
}

TEST(Lamb, MomentsSumsAndStepMatchRef) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 33, 1000, 5000}) {
      const OptimizerCase c(n);
      Guarded<float> w(c.weight), m(c.m), v(c.v), g(gradient_of(1, n));
      Guarded<bf16> compute(c.weight.size());
      auto want_w = doubles(c.weight), want_m = doubles(c.m), want_v = doubles(c.v);
      const AdamwStep s = {.learning_rate = 0.01,
                           .beta1 = 0.9,
                           .beta2 = 0.99,
                           .epsilon = 1e-6,
                           .weight_decay = 0.1,
                           .step = 3,
                           .gradient_scale = 0.5};
      const LambSums got = lamb_moments(s, g.span(), w.span(), m.span(), v.span());
      const LambSums want = lamb_moments_ref(s, doubles(gradient_of(1, n)), want_w, want_m, want_v);
      EXPECT_NEAR(got.weight, want.weight, 1e-12 * want.weight);
      EXPECT_NEAR(got.direction, want.direction, 1e-5 * want.direction);
      EXPECT_TRUE(is_close(g, std::vector<double>(static_cast<size_t>(n)), {}));
      lamb_step(s, 0.8, w.span(), m.span(), v.span(), compute.span());
      lamb_step_ref(s, 0.8, want_w, want_m, want_v);
      EXPECT_TRUE(is_close(w, want_w, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(m, want_m, {.absolute = 20 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(v, want_v, {.absolute = 1e-7, .relative = 20 * kRoundoff<float>}));
      for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(compute.values()[i].bits, to_bf16(w.values()[i]).bits);
    }
  });
}

// In both types of weights; the point where gradients are taken comes again with the same bits.
TEST(ScheduleFree, StepsMatchRefAndThePlaceComesAgain) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 33, 1000}) {
      const OptimizerCase c(n);
      Guarded<float> x(c.weight), d(c.m), v(c.v), y(c.weight.size()), x2(c.weight), d2(c.m), v2(c.v),
          again(c.weight.size());
      Guarded<bf16> narrow(c.weight.size());
      auto want_x = doubles(c.weight), want_d = doubles(c.m), want_v = doubles(c.v);
      std::vector<double> want_y(want_x.size());
      for (int step = 1; step <= 5; ++step) {
        const ScheduleFreeStep s = {.learning_rate = 0.01,
                                    .beta1 = 0.9,
                                    .beta2 = 0.99,
                                    .epsilon = 1e-8,
                                    .weight_decay = 0.1,
                                    .step = step,
                                    .gradient_scale = 0.5,
                                    .average_weight = 1.0 / step};
        Guarded<float> g(gradient_of(step, n)), g2(gradient_of(step, n));
        schedule_free_step(s, g.span(), x.span(), d.span(), v.span(), y.span());
        schedule_free_step(s, g2.span(), x2.span(), d2.span(), v2.span(), narrow.span());
        schedule_free_step_ref(s, doubles(gradient_of(step, n)), want_x, want_d, want_v, want_y);
        EXPECT_TRUE(is_close(g, std::vector<double>(static_cast<size_t>(n)), {}));
      }
      EXPECT_TRUE(is_close(x, want_x, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(d, want_d, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(y, want_y, {.absolute = 100 * kRoundoff<float>}));
      EXPECT_TRUE(same_bits(x2.values(), x.values()) && same_bits(d2.values(), d.values()));
      schedule_free_place(0.9, x.values(), d.values(), again.span());
      EXPECT_TRUE(same_bits(again.values(), y.values()));
      for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(narrow.values()[i].bits, to_bf16(y.values()[i]).bits);
    }
  });
}

TEST(Directions, LookAheadDirectionAndDecayedSquaresMatchRef) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 33, 1000}) {
      const OptimizerCase c(n);
      Guarded<float> g(gradient_of(1, n)), b(c.m), w(c.weight);
      Guarded<bf16> compute(c.weight.size());
      auto want_g = doubles(gradient_of(1, n)), want_b = doubles(c.m), want_w = doubles(c.weight);
      const double squares = decayed_squares(0.5, g.span(), 0.1, w.span());
      EXPECT_NEAR(squares, decayed_squares_ref(0.5, want_g, 0.1, want_w), 1e-12 * squares);
      look_ahead(0.95, 0.3, g.span(), b.span());
      look_ahead_ref(0.95, 0.3, want_g, want_b);
      EXPECT_TRUE(is_close(g, want_g, {.absolute = 20 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(b, want_b, {.absolute = 20 * kRoundoff<float>}));
      direction_step(0.01, 0.2, g.span(), w.span(), compute.span());
      direction_step_ref(0.01, 0.2, want_g, want_w);
      EXPECT_TRUE(is_close(w, want_w, {.absolute = 20 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(g, std::vector<double>(static_cast<size_t>(n)), {}));
      for (size_t i = 0; i < c.weight.size(); ++i) EXPECT_EQ(compute.values()[i].bits, to_bf16(w.values()[i]).bits);
    }
  });
}

// Without decay and with β = 0, AdamW moves each weight by lr·sign(g); decay alone shrinks it by lr·wd.
TEST(AdamwRef, KnownSteps) {
  std::vector<double> w = {1, -2}, m = {0, 0}, v = {0, 0};
  const std::vector<double> g = {3, -0.5}, none = {0, 0};
  AdamwStep s = {
      .learning_rate = 0.1, .beta1 = 0, .beta2 = 0, .epsilon = 0, .weight_decay = 0, .step = 1, .gradient_scale = 1};
  adamw_step_ref(s, g, w, m, v);
  EXPECT_DOUBLE_EQ(w[0], 0.9);
  EXPECT_DOUBLE_EQ(w[1], -1.9);
  s = {.learning_rate = 0.1,
       .beta1 = 0.9,
       .beta2 = 0.9,
       .epsilon = 1e-8,
       .weight_decay = 0.5,
       .step = 1,
       .gradient_scale = 1};
  m = v = {0, 0};
  adamw_step_ref(s, none, w, m, v);
  EXPECT_DOUBLE_EQ(w[0], 0.9 * 0.95);
}

TEST(Optimizer, ThreadsChangeNoBit) {
  for_each_isa([] {
    constexpr int64_t kCount = 200001;
    const auto g = random_values<float>("g", kCount);
    const AdamwStep step = {.learning_rate = 1e-2,
                            .beta1 = 0.9,
                            .beta2 = 0.95,
                            .epsilon = 1e-8,
                            .weight_decay = 0.1,
                            .step = 3,
                            .gradient_scale = 1};
    const OptimizerCase c(kCount);
    Guarded<float> w1(c.weight), m1(c.m), v1(c.v), w2(c.weight), m2(c.m), v2(c.v);
    with_threads(1, [&] { adamw_step(step, g, w1.span(), m1.span(), v1.span(), {}); });
    with_threads(2, [&] { adamw_step(step, g, w2.span(), m2.span(), v2.span(), {}); });
    EXPECT_TRUE(same_bits(w2.values(), w1.values()));
    EXPECT_TRUE(same_bits(m2.values(), m1.values()));
    EXPECT_TRUE(same_bits(v2.values(), v1.values()));
  });
}

}  // namespace
}  // namespace tern
