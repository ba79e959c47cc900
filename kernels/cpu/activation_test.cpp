#include "kernels/cpu/activation.h"

#include <limits>

#include "kernels/kernel_testing.h"
#include "kernels/ref/activation_ref.h"

namespace tern {
namespace {

constexpr Activation kAll[] = {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh, Activation::relu};
// Values err by a few units of max(1, |x|): the arguments of the exponentials carry x's own rounding. Slopes too.
constexpr double kUnits = 16 * kRoundoff<float>;

template <class T>
std::vector<T> inputs(int64_t count) {
  auto x = random_values<T>("x", count, 2);
  const double special[] = {0, -0.0, 1, -1, 8, -8, 30, -30, 1e4, -1e4, 1e-30, -1e-30};
  for (size_t i = 0; i < x.size() && i < std::size(special); ++i) x[i] = rounded<T>(special[i]);
  return x;
}

template <class T>
void matches(Activation act, int64_t rows, int64_t hidden) {
  SCOPED_TRACE(testing::Message() << "activation " << static_cast<int>(act) << ", " << rows << " x " << hidden);
  const int64_t n = rows * hidden;
  const auto x = inputs<T>(2 * n), dy = random_values<T>("dy", 2 * n);
  const auto wide = doubles(x), wide_dy = doubles(dy);
  std::vector<double> y(wide.size()), dx(wide.size());
  activation_ref(act, wide, y);
  activation_backward_ref(act, wide, wide_dy, {}, dx);
  Guarded<T> got(x.size()), got_dx(dy);
  activation<T>(act, x, got.span());
  activation_backward<T>(act, x, got_dx.values(), {}, got_dx.span());
  const Tolerance tolerance = {.absolute = kUnits, .relative = kUnits + kRoundoff<T>};
  EXPECT_TRUE(is_close(got, y, tolerance));
  EXPECT_TRUE(is_close(got_dx, dx, {.absolute = 5 * kUnits, .relative = kUnits + kRoundoff<T>}));

  std::vector<double> gated(static_cast<size_t>(n)), dgated(wide.size());
  const std::vector<T> half(dy.begin(), dy.begin() + n);
  const auto gate_up = random_values<T>("gate", 2 * n, 2);
  gated_activation_ref(act, hidden, doubles(gate_up), gated);
  gated_activation_backward_ref(act, hidden, doubles(gate_up), doubles(half), {}, dgated);
  Guarded<T> got_gated(gated.size()), got_dgated(wide.size());
  gated_activation<T>(act, hidden, gate_up, got_gated.span());
  gated_activation_backward<T>(act, hidden, gate_up, half, {}, got_dgated.span());
  EXPECT_TRUE(is_close(got_gated, gated, {.absolute = 10 * kUnits, .relative = kUnits + kRoundoff<T>}));
  EXPECT_TRUE(is_close(got_dgated, dgated, {.absolute = 50 * kUnits, .relative = kUnits + kRoundoff<T>}));

  // In the places of what they are made from, and the forward with its bits.
  Guarded<T> in_place(gate_up), forward(half);
  gated_activation_backward<T>(act, hidden, in_place.values(), forward.values(), forward.span(), in_place.span());
  EXPECT_TRUE(same_bits(in_place.values(), got_dgated.values()));
  EXPECT_TRUE(same_bits(forward.values(), got_gated.values()));
  Guarded<T> plain_in_place(x), plain_forward(dy);
  activation_backward<T>(act, plain_in_place.values(), plain_forward.values(), plain_forward.span(),
                         plain_in_place.span());
  EXPECT_TRUE(same_bits(plain_in_place.values(), got_dx.values()));
  EXPECT_TRUE(same_bits(plain_forward.values(), got.values()));
}

template <class T>
void clamped_matches(const ClampedGate& c, int64_t rows, int64_t hidden) {
  SCOPED_TRACE(testing::Message() << "limit " << c.limit << ", " << rows << " x " << hidden);
  const auto n = static_cast<size_t>(rows * hidden);
  auto gate_up = inputs<T>(2 * rows * hidden);
  for (size_t i = 0; i < n && i < 4; ++i)  // at the bounds, and just beyond
    gate_up[2 * n - 1 - i] = rounded<T>((i % 2 ? -1 : 1) * c.limit * (i / 2 ? 1 : 1.01));
  const auto dy = random_values<T>("dy", rows * hidden, 1);
  std::vector<double> want(n), dwant(2 * n);
  clamped_gate_ref(c, hidden, doubles(gate_up), want);
  clamped_gate_backward_ref(c, hidden, doubles(gate_up), doubles(dy), {}, dwant);
  Guarded<T> got(n), dgot(2 * n);
  clamped_gate<T>(c, hidden, gate_up, got.span());
  clamped_gate_backward<T>(c, hidden, gate_up, dy, {}, dgot.span());
  EXPECT_TRUE(is_close(got, want, {.absolute = 10 * kUnits, .relative = kUnits + kRoundoff<T>}));
  EXPECT_TRUE(is_close(dgot, dwant, {.absolute = 50 * kUnits, .relative = kUnits + kRoundoff<T>}));
  Guarded<T> in_place(gate_up), forward(dy);
  clamped_gate_backward<T>(c, hidden, in_place.values(), forward.values(), forward.span(), in_place.span());
  EXPECT_TRUE(same_bits(in_place.values(), dgot.values()));
  EXPECT_TRUE(same_bits(forward.values(), got.values()));
}

TEST(Activation, ClampedGatesMatchRefOnAwkwardSizes) {
  for_each_isa([] {
    for (const ClampedGate& c : {ClampedGate{}, ClampedGate{.alpha = 1.3, .limit = 0.5}})
      for (const auto& [rows, hidden] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {2, 31}, {5, 33}, {1, 1000}})
        clamped_matches<float>(c, rows, hidden), clamped_matches<bf16>(c, rows, hidden);
  });
}

TEST(Activation, ClampedGatesKeepNanAndHoldLargeNumbers) {
  for_each_isa([] {
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> gate_up = {nan, 3e38f, -3e38f, 2, 1, nan, 3e38f, -3e38f};  // gates, then ups
    const std::vector<float> ones(4, 1);
    Guarded<float> y(4), d(8);
    clamped_gate<float>({}, 4, gate_up, y.span());
    clamped_gate_backward<float>({}, 4, gate_up, ones, {}, d.span());
    EXPECT_TRUE(std::isnan(y.values()[0]) && std::isnan(y.values()[1]));
    EXPECT_EQ(y.values()[2], 0.0f);
    EXPECT_NEAR(y.values()[3], 2 / (1 + std::exp(-1.702 * 2)) * -6, 1e-5);
    EXPECT_EQ(d.values()[1], 0.0f) << "a gate beyond its bound";
    EXPECT_EQ(d.values()[6], 0.0f) << "an up beyond its bound";
    EXPECT_EQ(d.values()[7], 0.0f) << "an up below its bound";
  });
}

TEST(Activation, MatchesRefOnAwkwardSizes) {
  for_each_isa([] {
    for (const Activation act : kAll)
      for (const auto& [rows, hidden] : {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {2, 31}, {5, 33}, {1, 1000}})
        matches<float>(act, rows, hidden), matches<bf16>(act, rows, hidden);
  });
}

TEST(Activation, NanStaysNanAndLargeInputsAreFinite) {
  for_each_isa([] {
    const std::vector<float> x = {std::numeric_limits<float>::quiet_NaN(), 3e38f, -3e38f};
    const std::vector<float> ones = {1, 1, 1};
    for (const Activation act : kAll) {
      Guarded<float> y(3), dx(3);
      activation<float>(act, x, y.span());
      activation_backward<float>(act, x, ones, {}, dx.span());
      EXPECT_TRUE(std::isnan(y.values()[0]));
      EXPECT_EQ(y.values()[1], 3e38f);
      EXPECT_EQ(y.values()[2], 0.0f);
      EXPECT_EQ(dx.values()[1], 1.0f);
      EXPECT_EQ(dx.values()[2], 0.0f);
    }
  });
}

TEST(Activation, ThreadsAndPlaceInARangeChangeNoBit) {
  for_each_isa([] {
    constexpr int64_t kHidden = 333, kRows = 250;
    const auto x = random_values<float>("x", 2 * kHidden * kRows, 2), dy = random_values<float>("dy", kHidden * kRows);
    for (const Activation act : kAll) {
      Guarded<float> one(dy.size()), two(dy.size()), back_one(x.size()), back_two(x.size()), plain_one(x.size()),
          plain_two(x.size());
      with_threads(1, [&] {
        gated_activation<float>(act, kHidden, x, one.span());
        gated_activation_backward<float>(act, kHidden, x, dy, {}, back_one.span());
        activation<float>(act, x, plain_one.span());
      });
      with_threads(2, [&] {
        gated_activation<float>(act, kHidden, x, two.span());
        gated_activation_backward<float>(act, kHidden, x, dy, {}, back_two.span());
        activation<float>(act, x, plain_two.span());
      });
      EXPECT_TRUE(same_bits(two.values(), one.values()));
      EXPECT_TRUE(same_bits(back_two.values(), back_one.values()));
      EXPECT_TRUE(same_bits(plain_two.values(), plain_one.values()));
      Guarded<float> shifted(20);
      activation<float>(act, std::span<const float>(x).subspan(5, 20), shifted.span());
      EXPECT_TRUE(same_bits(shifted.values(), plain_one.values().subspan(5, 20)));
    }
  });
}

TEST(ActivationRef, SlopesMatchFiniteDifferences) {
  for (const Activation act : kAll)
    for (const double x : random_values<double>("x", 200, 2)) {
      if (act == Activation::relu && std::abs(x) < 1e-4) continue;  // the kink
      EXPECT_NEAR(slope([&](double t) { return activation_value_ref(act, x + t); }, 1e-5), activation_slope_ref(act, x),
                  1e-8);
    }
}

TEST(ActivationRef, GatedGradientsMatchFiniteDifferences) {
  constexpr int64_t kHidden = 7, kRows = 3;
  const auto x = random_values<double>("x", 2 * kHidden * kRows), e = random_values<double>("e", 2 * kHidden * kRows);
  const auto dy = random_values<double>("dy", kHidden * kRows);
  for (const Activation act : {Activation::silu, Activation::gelu_erf, Activation::gelu_tanh}) {
    std::vector<double> dx(x.size());
    gated_activation_backward_ref(act, kHidden, x, dy, {}, dx);
    double want = 0;
    for (size_t i = 0; i < x.size(); ++i) want += dx[i] * e[i];
    const auto f = [&](double t) {
      auto moved = x;
      for (size_t i = 0; i < x.size(); ++i) moved[i] += t * e[i];
      std::vector<double> y(dy.size());
      gated_activation_ref(act, kHidden, moved, y);
      double sum = 0;
      for (size_t i = 0; i < y.size(); ++i) sum += dy[i] * y[i];
      return sum;
    };
    EXPECT_NEAR(slope(f, 1e-5), want, 1e-7);
  }
}

}  // namespace
}  // namespace tern
