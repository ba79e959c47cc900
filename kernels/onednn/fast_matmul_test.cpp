#include "kernels/onednn/fast_matmul.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <set>

#include "base/bug.h"
#include "kernels/cpu/matmul.h"
#include "kernels/kernel_testing.h"
#include "kernels/onednn/onednn_matmul.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

constexpr ProductSize kFastMatmulSizes[] = {{1, 1, 1},      {7, 31, 33},    {33, 64, 7},    {64, 96, 128},
                                            {31, 1000, 33}, {130, 70, 515}, {1000, 33, 31}, {60, 512, 40}};

template <class T>
double largest(std::span<const T> v) {
  double most = 0;
  for (const T x : v) most = std::max(most, std::abs(value_of(x)));
  return most;
}
template <class T>
double largest(const std::vector<T>& v) {
  return largest(std::span<const T>(v));
}

/// Scratch of exactly the promised size, between canaries, not aligned to anything above 16.
struct Scratch {
  Guarded<uint8_t> bytes;
  Scratch(LinearProduct p, DType t, ProductSize s)
      : bytes(static_cast<size_t>(fast_scratch_bytes(p, t, s.m, s.n, s.k))) {}
  std::span<std::byte> span() { return std::as_writable_bytes(bytes.span()); }
};

/// A sum of `count` products of numbers up to a and b, in f32 and any order, then the additions and one last rounding.
template <class Out>
Tolerance sum_error(int64_t count, double a, double b, double others) {
  const double nu = static_cast<double>(count + 4) * kRoundoff<float>;
  return {.absolute = nu / (1 - nu) * (static_cast<double>(count) * a * b + others),
          .relative = sizeof(Out) == 2 ? kRoundoff<Out> : 0};
}

template <class T, class Out>
void forward_matches(ProductSize s) {
  const auto x = random_values<T>("x", s.m * s.k), w = random_values<T>("w", s.n * s.k);
  for (const bool with_bias : {false, true}) {
    const auto bias = random_values<T>("bias", with_bias ? s.n : 0, 10);
    std::vector<double> want(static_cast<size_t>(s.m * s.n));
    multiply_ref(doubles(x), doubles(w), doubles(bias), s.m, s.n, s.k, false, want);
    Scratch scratch(LinearProduct::forward, DTypeOf<T>::value, s);
    Guarded<Out> y(want.size()), again(want.size());
    multiply_fast<T, Out>(x, w, bias, s.m, s.n, s.k, y.span(), scratch.span());
    EXPECT_TRUE(is_close(y, want, sum_error<Out>(s.k, largest(x), largest(w), largest(bias)))) << "bias " << with_bias;
    multiply_fast<T, Out>(x, w, bias, s.m, s.n, s.k, again.span(), scratch.span());
    EXPECT_TRUE(same_bits(again.values(), y.values())) << "the same call again";
    EXPECT_TRUE(scratch.bytes.guards_intact()) << "scratch is larger than promised";
  }
}

template <class T>
void fast_gradients_match(ProductSize s) {
  const auto dy = random_values<T>("dy", s.m * s.n), w = random_values<T>("w", s.n * s.k),
             x = random_values<T>("x", s.m * s.k);
  for (const bool add : {false, true}) {
    const auto old = random_values<T>("dx", s.m * s.k, 10);
    auto want = doubles(old);
    multiply_nn_ref(doubles(dy), doubles(w), s.m, s.n, s.k, add, want);
    Scratch scratch(LinearProduct::input_gradient, DTypeOf<T>::value, s);
    Guarded<T> dx = add ? Guarded<T>(old) : Guarded<T>(old.size());
    multiply_fast_input_gradient<T>(dy, w, s.m, s.n, s.k, add, dx.span(), scratch.span());
    EXPECT_TRUE(is_close(dx, want, sum_error<T>(s.n, largest(dy), largest(w), largest(old))))
        << "input gradient, add " << add;
    EXPECT_TRUE(scratch.bytes.guards_intact()) << "scratch is larger than promised";
  }
  const auto old = random_values<float>("dw", s.n * s.k, 10);
  auto want = doubles(old);
  multiply_tn_ref(doubles(dy), doubles(x), s.m, s.n, s.k, want);
  Scratch scratch(LinearProduct::weight_gradient, DTypeOf<T>::value, s);
  Guarded<float> dw(old), again(old);
  multiply_fast_weight_gradient<T>(dy, x, s.m, s.n, s.k, dw.span(), scratch.span());
  EXPECT_TRUE(is_close(dw, want, sum_error<float>(s.m, largest(dy), largest(x), largest(old)))) << "weight gradient";
  multiply_fast_weight_gradient<T>(dy, x, s.m, s.n, s.k, again.span(), scratch.span());
  EXPECT_TRUE(same_bits(again.values(), dw.values())) << "the same call again";
  EXPECT_TRUE(scratch.bytes.guards_intact()) << "scratch is larger than promised";
}

TEST(FastMatmul, MatchesRefOnOddTailsAndRepeatsItsBits) {
  EXPECT_FALSE(fast_matmul_name().empty());
  EXPECT_EQ(fast_matmul_name(DType::f32).find("bf16"), std::string::npos) << "of this type alone";
  for (const ProductSize s : kFastMatmulSizes) {
    SCOPED_TRACE(testing::Message() << fast_matmul_name() << ": m " << s.m << ", n " << s.n << ", k " << s.k
                                    << ", TERN_TEST_SEED=" << test_seed());
    forward_matches<float, float>(s);
    forward_matches<bf16, bf16>(s);
    forward_matches<bf16, float>(s);
    fast_gradients_match<float>(s);
    fast_gradients_match<bf16>(s);
  }
}

TEST(FastMatmul, SaysWhoMultipliesWhat) {
  for_each_isa([] {
    const auto choices = fast_matmul_choices();
    ASSERT_EQ(choices.size(), 6u);
    for (const MatmulChoice& c : choices) {
      const bool faster = c.own_to_onednn == 0 || c.own_to_onednn < 1;
      EXPECT_EQ(c.by_onednn, onednn_can(c.dtype) && faster) << c.text;
      EXPECT_EQ(c.text.find("s: oneDNN") != std::string::npos, c.by_onednn) << c.text;
      EXPECT_EQ(c.text.find("s: own kernels") != std::string::npos, !c.by_onednn) << c.text;
      if (c.product != LinearProduct::forward) continue;
      EXPECT_EQ(fast_matmul_name(c.dtype).starts_with("oneDNN"), c.by_onednn) << c.text;
      EXPECT_EQ(fast_matmul_name(c.dtype).starts_with("own kernels"), !c.by_onednn) << c.text;
    }
    const std::string name(fast_matmul_name());
    const bool any = std::any_of(choices.begin(), choices.end(), [](const auto& c) { return c.by_onednn; });
    const bool all = std::all_of(choices.begin(), choices.end(), [](const auto& c) { return c.by_onednn; });
    EXPECT_EQ(name.starts_with("own kernels"), !any) << name;
    EXPECT_EQ(name.find("own kernels") == std::string::npos, all) << name;
  });
}

/// Where own kernels are said to multiply, the bits are theirs.
TEST(FastMatmul, AForcedSetIsNotLeftByTheLibrary) {
  constexpr ProductSize kSize = {33, 70, 515};
  const auto x = random_values<float>("x", kSize.m * kSize.k), w = random_values<float>("w", kSize.n * kSize.k);
  for_each_isa([&] {
    if (active_isa() >= chosen_isa() && active_isa() != Isa::portable) return;
    EXPECT_EQ(fast_matmul_name(DType::f32), "own kernels");
    Scratch scratch(LinearProduct::forward, DType::f32, kSize);
    std::vector<float> y(static_cast<size_t>(kSize.m * kSize.n)), want(y.size());
    multiply_fast<float, float>(x, w, {}, kSize.m, kSize.n, kSize.k, y, scratch.span());
    std::vector<std::byte> packed(static_cast<size_t>(packed_bytes(DType::f32, kSize.n, kSize.k)));
    pack_weight<float>(w, kSize.n, kSize.k, packed);
    multiply_exact<float, float>(x, packed, {}, kSize.m, kSize.n, kSize.k, false, want);
    EXPECT_TRUE(same_bits<float>(y, want));
  });
}

/// After a product of each type: what oneDNN may use at most is within the set that TERN_ISA names.
[[noreturn]] void multiply_under(Isa isa) {
  setenv("TERN_ISA", std::string(name_of(isa)).c_str(), 1);
  forward_matches<float, float>({33, 70, 515});
  fast_gradients_match<bf16>({33, 70, 515});
  const std::map<Isa, std::set<std::string_view>> allowed = {
      {Isa::avx2, {"sse41", "avx", "avx2"}},
      {Isa::avx512, {"sse41", "avx", "avx2", "avx512_core"}},
      {Isa::avx512_vnni, {"sse41", "avx", "avx2", "avx512_core", "avx512_core_vnni"}},
      {Isa::avx512_bf16, {"sse41", "avx", "avx2", "avx512_core", "avx512_core_vnni", "avx512_core_bf16"}}};
  const auto few = allowed.find(isa);
  const bool within = few == allowed.end() || few->second.contains(onednn_instructions());
  const std::string name(fast_matmul_name());
  const bool own_alone = name.starts_with("own kernels: ");
  std::fprintf(stderr, "%s; oneDNN on %s", name.c_str(), std::string(onednn_instructions()).c_str());
  std::exit(within && own_alone == (isa == Isa::portable) && !testing::Test::HasFailure() ? 0 : 1);
}

/// oneDNN is told once, so each set is a process of its own.
TEST(FastMatmulDeathTest, TernIsaHoldsTheLibraryToo) {
  if (onednn_version().empty()) GTEST_SKIP() << "built without oneDNN";
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  for (const Isa isa : available_isas())
    EXPECT_EXIT(multiply_under(isa), testing::ExitedWithCode(0), "oneDNN on") << name_of(isa);
}

TEST(FastMatmul, EmptyProductsAreLegal) {
  std::vector<float> y = {5, 5}, w(4), dw = {1, 2, 3, 4}, dx(0);
  EXPECT_EQ(fast_scratch_bytes(LinearProduct::forward, DType::f32, 0, 2, 2), 0);
  multiply_fast<float, float>({}, w, {}, 0, 2, 2, {}, {});
  multiply_fast_weight_gradient<float>({}, {}, 0, 2, 2, dw, {});
  EXPECT_EQ(dw, (std::vector<float>{1, 2, 3, 4}));
}

TEST(FastMatmul, TooLittleScratchIsRefused) {
  constexpr ProductSize kSize = {64, 96, 128};
  for (const DType t : {DType::f32, DType::bf16}) {
    const int64_t bytes = fast_scratch_bytes(LinearProduct::forward, t, kSize.m, kSize.n, kSize.k);
    EXPECT_GE(bytes, 0);
    if (bytes == 0) continue;
    if (t != DType::f32) continue;
    std::vector<float> x(kSize.m * kSize.k), w(kSize.n * kSize.k), y(kSize.m * kSize.n);
    std::vector<std::byte> scratch(bytes - 1);
    EXPECT_THROW((multiply_fast<float, float>(x, w, {}, kSize.m, kSize.n, kSize.k, y, scratch)), Bug);
  }
}

}  // namespace
}  // namespace tern
