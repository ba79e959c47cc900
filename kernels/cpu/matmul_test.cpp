#include "kernels/cpu/matmul.h"

#include <algorithm>

#include "kernels/kernel_testing.h"
#include "kernels/ref/matmul_ref.h"

namespace tern {
namespace {

constexpr ProductSize kMatmulSizes[] = {{1, 1, 1},    {1, 7, 31},     {2, 31, 7},     {7, 33, 1},
                                        {5, 64, 33},  {6, 65, 128},   {13, 127, 129}, {33, 1, 257},
                                        {97, 31, 64}, {100, 70, 300}, {3, 1000, 31},  {31, 7, 1000}};
std::string text(ProductSize s) {
  return "m " + std::to_string(s.m) + ", n " + std::to_string(s.n) + ", k " + std::to_string(s.k);
}

/// |got - want| <= γ·Σ|terms| + roundoff(T)·|want| for each element; γ for a sum of `count` products in f32, the bias
/// and the old value (Higham's bound, recalled), each product rounded once more where there is no fused multiply-add.
template <class T>
testing::AssertionResult within_sum_error(Guarded<T>& got, const std::vector<double>& want,
                                          const std::vector<double>& terms, int64_t count) {
  if (!got.guards_intact()) return testing::AssertionFailure() << "wrote beside the buffer";
  const double nu = static_cast<double>(count + 4) * kRoundoff<float>, gamma = nu / (1 - nu);
  const double last = sizeof(T) == 2 ? kRoundoff<T> : 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double bound = gamma * terms[i] + last * (std::abs(want[i]) + gamma * terms[i]);
    if (!(std::abs(value_of(got.values()[i]) - want[i]) <= bound))
      return testing::AssertionFailure() << "[" << i << "] got " << value_of(got.values()[i]) << ", want " << want[i]
                                         << " +- " << bound;
  }
  return testing::AssertionSuccess();
}

template <class T>
std::vector<std::byte> packed(const std::vector<T>& w, int64_t n, int64_t k) {
  std::vector<std::byte> p(packed_bytes(DTypeOf<T>::value, n, k), std::byte{0xff});  // NaN until packed
  pack_weight<T>(w, n, k, p);
  return p;
}

template <class T, class Out>
struct ForwardOperands {
  std::vector<T> x, w, bias;
  std::vector<Out> old;  // what y holds before
};
template <class T, class Out>
ForwardOperands<T, Out> forward_operands(ProductSize s, bool with_bias) {
  return {random_values<T>("x", s.m * s.k), random_values<T>("w", s.n * s.k),
          random_values<T>("bias", with_bias ? s.n : 0, 10), random_values<Out>("y", s.m * s.n, 10)};
}

template <class T, class Out>
void exact_matches(ProductSize s, bool with_bias, bool add) {
  SCOPED_TRACE(testing::Message() << text(s) << ", bias " << with_bias << ", add " << add);
  const auto [x, w, bias, old] = forward_operands<T, Out>(s, with_bias);
  auto want = doubles(old), terms = magnitudes(doubles(old));
  multiply_ref(doubles(x), doubles(w), doubles(bias), s.m, s.n, s.k, add, want);
  multiply_ref(magnitudes(doubles(x)), magnitudes(doubles(w)), magnitudes(doubles(bias)), s.m, s.n, s.k, add, terms);
  Guarded<Out> y = add ? Guarded<Out>(old) : Guarded<Out>(old.size());
  multiply_exact<T, Out>(x, packed(w, s.n, s.k), bias, s.m, s.n, s.k, add, y.span());
  EXPECT_TRUE(within_sum_error(y, want, terms, s.k));
}

TEST(Matmul, ExactProductMatchesRefOnOddTails) {
  for_each_isa([] {
    for (const ProductSize s : kMatmulSizes)
      for (const bool bias : {false, true})
        for (const bool add : {false, true}) {
          exact_matches<float, float>(s, bias, add);
          exact_matches<bf16, bf16>(s, bias, add);
          exact_matches<bf16, float>(s, bias, add);
        }
  });
}

template <class T, class Out>
void plain_has_the_bits_of_packed(ProductSize s, bool with_bias, bool add) {
  SCOPED_TRACE(testing::Message() << text(s) << ", bias " << with_bias << ", add " << add);
  const auto [x, w, bias, old] = forward_operands<T, Out>(s, with_bias);
  Guarded<Out> want = add ? Guarded<Out>(old) : Guarded<Out>(old.size()), got = want;
  multiply_exact<T, Out>(x, packed(w, s.n, s.k), bias, s.m, s.n, s.k, add, want.span());
  multiply_nt<T, Out>(x, w, bias, s.m, s.n, s.k, add, got.span());
  EXPECT_TRUE(got.guards_intact());
  EXPECT_TRUE(same_bits(got.values(), want.values()));
}

TEST(Matmul, AWeightNotPackedGivesTheBitsOfAPackedOne) {
  std::vector<ProductSize> sizes(std::begin(kMatmulSizes), std::end(kMatmulSizes));
  // Several blocks of rows (768, or 144 where the sum takes more than one of 384), of columns (288, or 144) and of the sum.
  sizes.insert(sizes.end(), {{800, 300, 96}, {200, 310, 1000}, {47, 20, 801}, {3, 4, 0}});
  for_each_isa([&] {
    for (const ProductSize s : sizes)
      for (const bool bias : {false, true})
        for (const bool add : {false, true})
          with_threads(add ? 2 : 1, [&] {
            plain_has_the_bits_of_packed<float, float>(s, bias, add);
            plain_has_the_bits_of_packed<bf16, bf16>(s, bias, add);
            plain_has_the_bits_of_packed<bf16, float>(s, bias, add);
          });
  });
}

template <class T>
void gradients_match(ProductSize s) {
  SCOPED_TRACE(text(s));
  const auto dy = random_values<T>("dy", s.m * s.n), w = random_values<T>("w", s.n * s.k),
             x = random_values<T>("x", s.m * s.k);
  for (const bool add : {false, true}) {
    const auto old = random_values<T>("dx", s.m * s.k, 10);
    auto want = doubles(old), terms = magnitudes(doubles(old));
    multiply_nn_ref(doubles(dy), doubles(w), s.m, s.n, s.k, add, want);
    multiply_nn_ref(magnitudes(doubles(dy)), magnitudes(doubles(w)), s.m, s.n, s.k, add, terms);
    Guarded<T> dx = add ? Guarded<T>(old) : Guarded<T>(old.size());
    multiply_nn<T>(dy, w, s.m, s.n, s.k, add, dx.span());
    EXPECT_TRUE(within_sum_error(dx, want, terms, s.n)) << "input gradient, add " << add;
  }
  const auto old = random_values<float>("dw", s.n * s.k, 10);
  auto want = doubles(old), terms = magnitudes(doubles(old));
  multiply_tn_ref(doubles(dy), doubles(x), s.m, s.n, s.k, want);
  multiply_tn_ref(magnitudes(doubles(dy)), magnitudes(doubles(x)), s.m, s.n, s.k, terms);
  Guarded<float> dw(old);
  multiply_tn<T>(dy, x, s.m, s.n, s.k, dw.span());
  EXPECT_TRUE(within_sum_error(dw, want, terms, s.m)) << "weight gradient";
}

TEST(Matmul, GradientsMatchRefOnOddTailsAndAccumulate) {
  for_each_isa([] {
    for (const ProductSize s : kMatmulSizes) {
      gradients_match<float>(s);
      gradients_match<bf16>(s);
    }
    gradients_match<float>({800, 33, 70});  // several blocks of the summed rows
    gradients_match<bf16>({513, 33, 70});
    gradients_match<bf16>({1601, 205, 310});  // beside several blocks of rows and groups of columns
    gradients_match<bf16>({70, 1300, 330});   // and of the summed columns, of more panels than are summed at once
    gradients_match<bf16>({33, 1024, 64});
    for (const int threads : {1, 7}) with_threads(threads, [] { gradients_match<float>({410, 900, 310}); });
  });
}

/// However a product is cut into tasks.
template <class T>
void threads_change_no_bit(ProductSize s) {
  const auto x = random_values<T>("x", s.m * s.k), w = random_values<T>("w", s.n * s.k),
             dy = random_values<T>("dy", s.m * s.n);
  std::vector<T> y(dy.size()), dx(x.size());
  std::vector<float> dw(w.size());
  for (const int threads : {1, 2, 7, 64})
    with_threads(threads, [&] {
      SCOPED_TRACE(testing::Message() << text(s) << ", " << threads << " threads");
      std::vector<T> y_here(dy.size()), dx_here(x.size());
      std::vector<float> dw_here(w.size());
      multiply_nt<T, T>(x, w, {}, s.m, s.n, s.k, false, y_here);
      multiply_nn<T>(dy, w, s.m, s.n, s.k, false, dx_here);
      multiply_tn<T>(dy, x, s.m, s.n, s.k, dw_here);
      if (threads == 1) y = y_here, dx = dx_here, dw = dw_here;
      EXPECT_TRUE(same_bits<T>(y_here, y));
      EXPECT_TRUE(same_bits<T>(dx_here, dx));
      EXPECT_TRUE(same_bits<float>(dw_here, dw));
    });
}

TEST(Matmul, ThreadsChangeNoBitOfProductsOfTraining) {
  for_each_isa([] {
    for (const ProductSize s : {ProductSize{410, 900, 310}, {64, 288, 96}, {5, 1100, 40}}) {
      threads_change_no_bit<float>(s);
      threads_change_no_bit<bf16>(s);
    }
  });
}

/// Row r of a product of m rows has the bits of the product of that row alone, for every m, add or not, 1 or 2 threads.
template <class T, class Out>
void rows_are_invariant() {
  constexpr int64_t kRows = 200, kN = 130, kK = 515;  // several blocks of rows and of K, an odd K, a partial panel
  const auto x = random_values<T>("x", kRows * kK), w = random_values<T>("w", kN * kK),
             bias = random_values<T>("bias", kN);
  const auto p = packed(w, kN, kK);
  std::vector<Out> alone(kRows * kN);
  with_threads(1, [&] {
    for (int64_t r = 0; r < kRows; ++r)
      multiply_exact<T, Out>(std::span(x).subspan(r * kK, kK), p, bias, 1, kN, kK, false,
                             std::span(alone).subspan(r * kN, kN));
  });
  std::vector<int64_t> counts = {95, 96, 97, 200};
  for (int64_t m = 1; m <= 64; ++m) counts.push_back(m);
  for (const int64_t m : counts)
    with_threads(m % 2 ? 2 : 1, [&] {
      const int64_t first = (m * 7) % (kRows - m + 1);  // other neighbours, other places in the tile
      Guarded<Out> y(static_cast<size_t>(m * kN));
      multiply_exact<T, Out>(std::span(x).subspan(first * kK, m * kK), p, bias, m, kN, kK, false, y.span());
      EXPECT_TRUE(same_bits(y.values(), std::span<const Out>(alone).subspan(first * kN, m * kN))) << "m " << m;
    });
  Guarded<Out> one(static_cast<size_t>(kRows * kN)), two(static_cast<size_t>(kRows * kN));
  with_threads(1, [&] { multiply_exact<T, Out>(x, p, bias, kRows, kN, kK, false, one.span()); });
  with_threads(2, [&] { multiply_exact<T, Out>(x, p, bias, kRows, kN, kK, false, two.span()); });
  EXPECT_TRUE(same_bits(two.values(), one.values()));
}

TEST(Matmul, ARowHasTheSameBitsInEveryBatchAndThreadCount) {
  for_each_isa([] {
    rows_are_invariant<float, float>();
    rows_are_invariant<bf16, bf16>();
    rows_are_invariant<bf16, float>();
  });
}

template <class T>
void gradients_ignore_threads_and_neighbours() {
  constexpr int64_t kM = 101, kN = 259, kK = 131;
  const auto dy = random_values<T>("dy", kM * kN), w = random_values<T>("w", kN * kK),
             x = random_values<T>("x", kM * kK);
  std::vector<T> dx_one(kM * kK), dx_two(kM * kK), dx_alone(kM * kK);
  std::vector<float> dw_one(kN * kK, 0.5f), dw_two(kN * kK, 0.5f);
  const auto run = [&](std::vector<T>& dx, std::vector<float>& dw) {
    multiply_nn<T>(dy, w, kM, kN, kK, false, dx);
    multiply_tn<T>(dy, x, kM, kN, kK, dw);
  };
  with_threads(1, [&] { run(dx_one, dw_one); });
  with_threads(2, [&] { run(dx_two, dw_two); });
  for (int64_t r = 0; r < kM; ++r)
    multiply_nn<T>(std::span(dy).subspan(r * kN, kN), w, 1, kN, kK, false, std::span(dx_alone).subspan(r * kK, kK));
  EXPECT_TRUE(same_bits<T>(dx_two, dx_one));
  EXPECT_TRUE(same_bits<T>(dx_alone, dx_one));
  EXPECT_TRUE(same_bits<float>(dw_two, dw_one));
}

TEST(Matmul, GradientsHaveTheSameBitsForAnyThreadCount) {
  for_each_isa([] {
    gradients_ignore_threads_and_neighbours<float>();
    gradients_ignore_threads_and_neighbours<bf16>();
  });
}

template <class Out>
void pieces_equal_the_whole(int64_t m, int64_t k) {
  const int64_t counts[] = {33, 0, 64, 1, 70}, n = 168;
  const auto x = random_values<bf16>("x", m * k), bias = random_values<bf16>("bias", n);
  const auto odd = random_values<bf16>("w", n * k + 1);  // from its second element on: aligned for bf16 alone
  const std::vector<bf16> w(odd.begin() + 1, odd.end());
  std::vector<std::vector<bf16>> copies;  // each on its own, so that the sanitizers see a step beyond its end
  std::vector<WeightRows<bf16>> pieces;
  int64_t row = 0;
  for (const int64_t count : counts) {
    copies.emplace_back(w.begin() + row * k, w.begin() + (row + count) * k);
    pieces.push_back({copies.back().data(), count});
    row += count;
  }
  const WeightRows<bf16> whole{odd.data() + 1, n};
  for (const bool add : {false, true}) {
    const auto old = random_values<Out>("y", m * n, 10);
    Guarded<Out> want(old), one(old), many(old);
    multiply_exact<bf16, Out>(x, packed(w, n, k), bias, m, n, k, add, want.span());
    multiply_plain<bf16, Out>(x, {&whole, 1}, bias, m, n, k, add, one.span());
    multiply_plain<bf16, Out>(x, pieces, bias, m, n, k, add, many.span());
    EXPECT_TRUE(want.guards_intact() && one.guards_intact() && many.guards_intact());
    EXPECT_TRUE(same_bits(one.values(), want.values())) << "m " << m << ", k " << k;
    EXPECT_TRUE(same_bits(many.values(), want.values())) << "m " << m << ", k " << k << ", pieces";
  }
}

TEST(Matmul, WeightsInPiecesAsTheyLieGiveTheBitsOfThePackedOne) {
  const auto plain = [] { return reads_plain_weights(DType::bf16); };
  for_each_isa_that(plain, "reads plain weights", [] {
    for (const int64_t m : {1, 16, 17, 97})
      for (const int64_t k : {1, 31, 64, 515, 1057}) {
        pieces_equal_the_whole<float>(m, k);
        pieces_equal_the_whole<bf16>(m, k);
      }
  });
}

TEST(Matmul, PackingPiecesIsPackingTheWhole) {  // panels of 8 to 64 rows that begin, end or lie within pieces
  const auto packs_the_same = []<class T>(std::initializer_list<int64_t> counts, int64_t k) {
    int64_t n = 0;
    for (const int64_t count : counts) n += count;
    const auto w = random_values<T>("w", n * k);
    std::vector<WeightRows<T>> rows;
    const T* at = w.data();
    for (const int64_t count : counts) rows.push_back({at, count}), at += count * k;
    const auto bytes = static_cast<size_t>(packed_bytes(DTypeOf<T>::value, n, k));
    std::vector<std::byte> got(bytes, std::byte{0x5a}), want(bytes, std::byte{0xa5});
    pack_weight<T>(std::span<const WeightRows<T>>(rows), n, k, got);
    pack_weight<T>(std::span<const T>(w), n, k, want);
    EXPECT_EQ(got, want) << counts.size() << " pieces, k " << k;
  };
  for_each_isa([&] {
    for (const int64_t k : {1, 33, 130})
      for (const auto& counts : {std::initializer_list<int64_t>{64, 128, 64},
                                 {5},
                                 {3, 4, 5},
                                 {70, 1, 57, 200},
                                 {64, 1},
                                 {1, 127, 0, 300},
                                 {130, 130}}) {
        packs_the_same.operator()<float>(counts, k);
        packs_the_same.operator()<bf16>(counts, k);
      }
  });
}

TEST(Matmul, FewRowsHaveTheSameBitsForAnyThreadCount) {  // threads that take from each other's share of a weight
  for_each_isa_that(
      [] { return reads_plain_weights(DType::bf16); }, "reads plain weights",
      [] {
        constexpr int64_t n = 32 * 133 + 5, k = 160;
        const auto w = random_values<bf16>("w", n * k), x = random_values<bf16>("x", 3 * k);
        const WeightRows<bf16> whole{w.data(), n};
        for (const int64_t m : {2, 3}) {
          std::vector<float> want(m * n);
          with_threads(1, [&] {
            multiply_plain<bf16, float>(std::span(x).first(m * k), {&whole, 1}, {}, m, n, k, false, want);
          });
          for (const int threads : {2, 3, 5, 100}) {
            Guarded<float> y(static_cast<size_t>(m * n));
            with_threads(threads, [&] {
              multiply_plain<bf16, float>(std::span(x).first(m * k), {&whole, 1}, {}, m, n, k, false, y.span());
            });
            EXPECT_TRUE(y.guards_intact() && same_bits<float>(y.values(), want))
                << "m " << m << ", threads " << threads;
          }
        }
      });
}

TEST(Matmul, UnpackedRowsAreThePackedOnes) {
  for_each_isa([] {
    for (const ProductSize s : kMatmulSizes) {
      const auto w32 = random_values<float>("w", s.n * s.k);
      const auto w16 = random_values<bf16>("w", s.n * s.k);
      const auto p32 = packed(w32, s.n, s.k), p16 = packed(w16, s.n, s.k);
      for (int64_t row = 0; row < s.n; ++row) {
        Guarded<float> r32(static_cast<size_t>(s.k));
        Guarded<bf16> r16(static_cast<size_t>(s.k));
        unpack_row<float>(p32, s.n, s.k, row, r32.span());
        unpack_row<bf16>(p16, s.n, s.k, row, r16.span());
        EXPECT_TRUE(same_bits(r32.values(), std::span<const float>(w32).subspan(row * s.k, s.k)))
            << text(s) << " row " << row;
        EXPECT_TRUE(same_bits(r16.values(), std::span<const bf16>(w16).subspan(row * s.k, s.k)))
            << text(s) << " row " << row;
      }
    }
  });
}

/// A row of NaN or infinities stays among its own results, also where the row before it has an odd length.
TEST(Matmul, APoisonedRowSpoilsNoOther) {
  constexpr int64_t kM = 8, kN = 70, kK = 33;
  for_each_isa([] {
    auto x = random_values<bf16>("x", kM * kK);
    const auto w = random_values<bf16>("w", kN * kK);
    std::fill_n(x.begin() + 3 * kK, kK, to_bf16(INFINITY));
    std::vector<float> y(kM * kN);
    multiply_exact<bf16, float>(x, packed(w, kN, kK), {}, kM, kN, kK, false, y);
    for (int64_t i = 0; i < kM * kN; ++i) EXPECT_EQ(std::isfinite(y[i]), i / kN != 3) << i;
  });
}

TEST(Matmul, EmptyProductsDoNothingOrGiveTheBias) {
  for_each_isa([] {
    const std::vector<float> bias = {1, 2, 3}, six(6);
    Guarded<float> y(size_t{6});
    multiply_exact<float, float>({}, packed<float>({}, 3, 0), bias, 2, 3, 0, false, y.span());
    EXPECT_TRUE(is_close(y, {1, 2, 3, 1, 2, 3}, {}));
    multiply_exact<float, float>({}, packed(std::vector<float>(6), 3, 2), bias, 0, 3, 2, false, {});
    Guarded<float> dx(size_t{4});
    multiply_nn<float>({}, {}, 2, 0, 2, false, dx.span());
    EXPECT_TRUE(is_close(dx, {0, 0, 0, 0}, {}));
    multiply_nn<float>({}, six, 0, 3, 2, false, {});
    multiply_nt<float, float>({}, six, {}, 0, 3, 2, false, {});
    multiply_tn<float>(six, {}, 2, 3, 0, {});
    multiply_tn<float>({}, six, 2, 0, 3, {});
    Guarded<float> biases(size_t{6});
    multiply_nt<float, float>({}, {}, bias, 2, 3, 0, false, biases.span());
    EXPECT_TRUE(is_close(biases, {1, 2, 3, 1, 2, 3}, {}));
    const auto half_bias = random_values<bf16>("bias", 35);
    for (const int64_t m : {2, 40}) {  // few rows and many have kernels of their own
      std::vector<double> want, twice;
      for (int64_t i = 0; i < m * 35; ++i) want.push_back(value_of(half_bias[static_cast<size_t>(i % 35)]));
      for (const double x : want) twice.push_back(2 * x);
      Guarded<bf16> half(static_cast<size_t>(m * 35));
      multiply_exact<bf16, bf16>({}, packed<bf16>({}, 35, 0), half_bias, m, 35, 0, false, half.span());
      EXPECT_TRUE(is_close(half, want, {})) << "m " << m;
      multiply_exact<bf16, bf16>({}, packed<bf16>({}, 35, 0), half_bias, m, 35, 0, true, half.span());
      EXPECT_TRUE(is_close(half, twice, {})) << "m " << m << ", added";
      Guarded<bf16> half_dx(static_cast<size_t>(m * 2));
      multiply_nn<bf16>({}, {}, m, 0, 2, false, half_dx.span());
      EXPECT_TRUE(is_close(half_dx, std::vector<double>(static_cast<size_t>(m * 2)), {})) << "m " << m;
    }
  });
}

TEST(Matmul, RefusesBuffersOfTheWrongSize) {
  std::vector<float> x(6), y(5);
  EXPECT_THROW((multiply_exact<float, float>(x, packed(std::vector<float>(9), 3, 3), {}, 2, 3, 3, false, y)),
               std::exception);
}

}  // namespace
}  // namespace tern
