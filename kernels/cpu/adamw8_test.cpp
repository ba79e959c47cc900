#include "kernels/cpu/adamw8.h"

#include "kernels/kernel_testing.h"
#include "kernels/ref/adamw8_ref.h"

namespace tern {
namespace {

TEST(Codes, AreSortedAndEveryValueEncodesToItself) {
  for (const auto* values : {&signed_codes(), &unsigned_codes()}) {
    EXPECT_TRUE(std::is_sorted(values->begin(), values->end()));
    EXPECT_EQ((*values)[255], 1);
    EXPECT_EQ(std::count(values->begin(), values->end(), 0.0f), 1);
    std::vector<uint8_t> codes(256);
    EXPECT_EQ(encode(*values, *values, codes), 1.0f);
    for (size_t i = 0; i < 256; ++i) ASSERT_EQ(codes[i], i);
  }
}

TEST(Codes, TheNearestIsTakenTiesUpwardsAndZerosStay) {
  const std::array<float, 256>& values = signed_codes();
  std::vector<float> x = {1.0f};
  for (size_t i = 0; i + 1 < 256; ++i) x.push_back(values[i] + (values[i + 1] - values[i]) * 0.25f);
  std::vector<uint8_t> codes(x.size());
  encode(x, values, codes);
  for (size_t i = 1; i < x.size(); ++i) ASSERT_EQ(codes[i], i - 1);
  const float tie = (values[255] + values[254]) * 0.5f;
  std::vector<uint8_t> two(2);
  encode(std::vector<float>{1.0f, tie}, values, two);
  EXPECT_EQ(two[1], tie - values[254] >= (values[255] - values[254]) * 0.5f ? 255 : 254);
  std::vector<uint8_t> zeros(3);
  EXPECT_EQ(encode(std::vector<float>{0, 0, 0}, values, zeros), 1e-12f);
  for (const uint8_t code : zeros) EXPECT_EQ(values[code], 0);
}

// Around every value and every middle between two, one unit in the last place apart, and at random: what trying all of them gives.
TEST(Codes, AreThoseOfTryingEachValue) {
  for (const auto* values : {&signed_codes(), &unsigned_codes()}) {
    std::vector<float> all = {1.0f};
    for (size_t i = 0; i + 1 < 256; ++i)
      for (const float at : {(*values)[i], (*values)[i] + ((*values)[i + 1] - (*values)[i]) * 0.5f})
        for (const float x : {std::nextafter(at, -2.0f), at, std::nextafter(at, 2.0f)})
          all.push_back(std::min(x, 1.0f));
    for (const float x : random_values<float>("codes", 2000, 0.2)) all.push_back(std::clamp(x, -1.0f, 1.0f));
    for (size_t begin = 0; begin < all.size(); begin += 1000) {
      std::vector<float> x(all.begin() + static_cast<std::ptrdiff_t>(begin),
                           all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + 1000)));
      x.push_back(1.0f);  // the scale
      std::vector<uint8_t> codes(x.size());
      ASSERT_EQ(encode(x, *values, codes), 1.0f);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto above = std::upper_bound(values->begin(), values->end(), x[i]);
        const auto low = static_cast<size_t>(std::max<std::ptrdiff_t>(above - values->begin() - 1, 0)),
                   high = std::min<size_t>(low + 1, 255);
        const bool up = x[i] - (*values)[low] >= ((*values)[high] - (*values)[low]) * 0.5f;
        ASSERT_EQ(codes[i], up ? high : low) << x[i];
      }
    }
  }
}

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
