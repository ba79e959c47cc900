#include "kernels/cpu/adamw8.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/adamw8_ref.h"

namespace tern {
namespace {

// From state that is not zero, with a block that is shorter; one step, so that codes at ties cannot grow apart.
TEST(Adamw8, AStepMatchesTheTwinOnOddTails) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 2047, 2048, 2049, 5000}) {
      const auto blocks = static_cast<size_t>((n + kCodeBlock - 1) / kCodeBlock);
      const AdamwStep step = {.learning_rate = 1e-2,
                              .beta1 = 0.9,
                              .beta2 = 0.95,
                              .epsilon = 1e-8,
                              .weight_decay = 0.1,
                              .step = 3,
                              .gradient_scale = 0.7};
      const auto first = random_values<float>("w", n), g = random_values<float>("g", n);
      std::vector<uint8_t> start(static_cast<size_t>(n));
      for (size_t i = 0; i < start.size(); ++i) start[i] = static_cast<uint8_t>(i * 37 % 256);
      Guarded<float> w(first), gradient(g), m_scale(std::vector<float>(blocks, 0.3f)),
          v_scale(std::vector<float>(blocks, 0.02f));
      Guarded<uint8_t> m(start), v(start);
      Guarded<bf16> compute(first.size());
      adamw8_step(step, gradient.span(), w.span(), {m.span(), v.span(), m_scale.span(), v_scale.span()},
                  compute.span());
      std::vector<double> want = doubles(first);
      std::vector<uint8_t> want_m = start, want_v = start;
      std::vector<double> want_m_scale(blocks, double(0.3f)), want_v_scale(blocks, double(0.02f));
      adamw8_step_ref(step, doubles(g), want, {want_m, want_v, want_m_scale, want_v_scale});
      EXPECT_TRUE(is_close(w, want, {.absolute = 20 * kRoundoff<float>, .relative = 20 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(m_scale, want_m_scale, {.relative = 8 * kRoundoff<float>}));
      EXPECT_TRUE(is_close(v_scale, want_v_scale, {.relative = 8 * kRoundoff<float>}));
      int ties = 0;
      for (size_t i = 0; i < start.size(); ++i) {
        ASSERT_LE(std::abs(m.values()[i] - want_m[i]) + std::abs(v.values()[i] - want_v[i]), 1) << i;
        ties += m.values()[i] != want_m[i] || v.values()[i] != want_v[i];
        ASSERT_EQ(compute.values()[i], to_bf16(w.values()[i]));
        ASSERT_EQ(gradient.values()[i], 0);
      }
      EXPECT_LE(ties, 1 + n / 1000);
      EXPECT_TRUE(m.guards_intact() && v.guards_intact() && compute.guards_intact());
    }
  });
}

}  // namespace
}  // namespace tern
