#include "kernels/cpu/experts.h"

#include <numeric>

#include "base/bug.h"
#include "kernels/kernel_testing.h"
#include "kernels/ref/experts_ref.h"

namespace tern {
namespace {

constexpr int64_t kWidths[] = {1, 7, 31, 33, 257, 1000};

std::vector<int32_t> some_chosen(int64_t tokens, int64_t experts, int64_t top_k) {
  std::vector<float> scores = random_values<float>("scores", tokens * experts), weights(tokens * top_k);
  std::vector<int32_t> chosen(weights.size());
  choose_experts({experts, top_k}, {}, scores, chosen, weights);
  return chosen;
}

TEST(Experts, RowsAreSortedByExpertAndWithinOneByToken) {
  for (const auto& [tokens, experts, top_k] : {std::array<int64_t, 3>{1, 4, 2}, {37, 5, 5}, {100, 130, 3}}) {
    const std::vector<int32_t> chosen = some_chosen(tokens, experts, top_k);
    Guarded<int32_t> begin(static_cast<size_t>(experts) + 1), of(chosen.size()), rows(chosen.size());
    sort_by_expert(chosen, top_k, begin.span(), of.span(), rows.span());
    std::vector<int32_t> places(rows.span().begin(), rows.span().end());
    std::sort(places.begin(), places.end());
    for (size_t i = 0; i < places.size(); ++i) ASSERT_EQ(places[i], static_cast<int32_t>(i)) << "a row taken twice";
    EXPECT_EQ(begin.span()[0], 0);
    EXPECT_EQ(begin.span().back(), static_cast<int32_t>(chosen.size()));
    for (size_t i = 0; i < chosen.size(); ++i) {
      const int32_t row = rows.span()[i];
      EXPECT_EQ(of.span()[static_cast<size_t>(row)], static_cast<int32_t>(static_cast<int64_t>(i) / top_k));
      EXPECT_TRUE(begin.span()[static_cast<size_t>(chosen[i])] <= row &&
                  row < begin.span()[static_cast<size_t>(chosen[i]) + 1]);
      for (size_t j = 0; j < i; ++j) EXPECT_TRUE(chosen[j] != chosen[i] || rows.span()[j] < row);
    }
    EXPECT_TRUE(begin.guards_intact() && of.guards_intact() && rows.guards_intact());
  }
}

// The twin itself, against the definition: no ties, so the chosen are those that fewer than K exceed.
TEST(Experts, WeightsOfTheTwinAreOfTheGreatestScores) {
  for (const bool normalized : {true, false}) {
    constexpr int64_t kTokens = 50, kExperts = 9, kTop = 3;
    std::vector<double> logits = random_values<double>("logits", kTokens * kExperts, 2), scores = logits;
    std::vector<double> weights(kTokens * kTop);
    std::vector<int32_t> chosen(weights.size());
    choose_experts_ref({kExperts, kTop, normalized}, {}, scores, chosen, weights);
    for (int64_t t = 0; t < kTokens; ++t) {
      const double* z = logits.data() + t * kExperts;
      double sum = 0, of_chosen = 0;
      for (int64_t e = 0; e < kExperts; ++e) sum += std::exp(z[e]);
      for (int64_t k = 0; k < kTop; ++k) of_chosen += std::exp(z[chosen[static_cast<size_t>(t * kTop + k)]]);
      for (int64_t k = 0; k < kTop; ++k) {
        const int32_t id = chosen[static_cast<size_t>(t * kTop + k)];
        EXPECT_TRUE(k == 0 || chosen[static_cast<size_t>(t * kTop + k) - 1] < id);
        EXPECT_LT(std::count_if(z, z + kExperts, [&](double x) { return x > z[id]; }), kTop);
        EXPECT_NEAR(weights[static_cast<size_t>(t * kTop + k)], std::exp(z[id]) / (normalized ? of_chosen : sum),
                    1e-14);
      }
    }
  }
}

// Odd numbers of tokens and experts, one of one to all of all; groups of 1 to 13; biases that leave open experts below
// 0.
const Router kRouters[] = {
    {1, 1},
    {7, 1, false},
    {31, 7},
    {33, 33},
    {130, 2},  // so few of so many: the other algorithm
    {8, 3, true, Score::sigmoid, 2.5, 4, 2},
    {33, 5, true, Score::sigmoid, 1.5, 3, 1},
    {64, 8, false, Score::sigmoid, 1, 8, 3},
    {20, 4, true, Score::sigmoid, 2.5},
    {26, 5, false, Score::softmax, 3, 2, 1},
    {30, 6, true, Score::softmax, 1, 10, 4},
    {12, 2, false, Score::softmax, 16, 12, 3},
};

TEST(Experts, ChoiceAndItsGradientsAreTheTwins) {
  for (const Router& r : kRouters)
    for (const double bias_size : {0.0, 1.0, 3.0})
      for (const int64_t tokens : {1, 7, 33, 1000}) {
        SCOPED_TRACE(testing::Message() << r.top_k << " of " << r.experts << ", " << r.top_groups << " of " << r.groups
                                        << " groups, bias " << bias_size << ", " << tokens
                                        << " tokens, TERN_TEST_SEED=" << test_seed());
        std::vector<float> scores = random_values<float>("logits", tokens * r.experts, 2),
                           bias = random_values<float>("bias", bias_size == 0 ? 0 : r.experts, bias_size),
                           c = random_values<float>("c", tokens * r.top_k);
        std::vector<double> want = doubles(scores), want_weights(static_cast<size_t>(tokens * r.top_k));
        std::vector<int32_t> ids(want_weights.size());
        choose_experts_ref(r, doubles(bias), want, ids, want_weights);
        Guarded<float> got(scores), weights(want_weights.size());
        Guarded<int32_t> chosen(ids.size());
        choose_experts(r, bias, got.span(), chosen.span(), weights.span());
        ASSERT_TRUE(same_bits<int32_t>(chosen.values(), ids));
        const Tolerance close{.relative = static_cast<double>(r.experts + 16) * kRoundoff<float>};
        EXPECT_TRUE(is_close(got, want, close));
        EXPECT_TRUE(is_close(weights, want_weights, close));
        EXPECT_TRUE(chosen.guards_intact());

        std::vector<double> gradients(want.size());
        choose_experts_backward_ref(r, doubles<float>(got.values()), ids, doubles(c), gradients);
        const double bound = 64 * r.scaling * static_cast<double>(r.top_k) * kRoundoff<float>;
        Guarded<float> d(want.size());
        choose_experts_backward<float>(r, got.values(), ids, weights.values(), c, d.span());
        EXPECT_TRUE(is_close(d, gradients, {.absolute = bound}));
        Guarded<bf16> half(want.size());
        choose_experts_backward<bf16>(r, got.values(), ids, weights.values(), c, half.span());
        EXPECT_TRUE(is_close(half, gradients, {.absolute = bound, .relative = kRoundoff<bf16>}));
      }
}

// The twin's derivation, by central differences of Σ c·w.
TEST(Experts, GradientsOfLogitsAreTheWeights) {
  constexpr int64_t kTokens = 6, kExperts = 8, kTop = 3;
  for (const Router& router :
       {Router{kExperts, kTop, true}, Router{kExperts, kTop, false},
        Router{kExperts, kTop, true, Score::sigmoid, 2.5, 4, 2}, Router{kExperts, kTop, false, Score::sigmoid, 0.5},
        Router{kExperts, kTop, false, Score::softmax, 3, 2, 1}}) {
    const std::vector<double> logits = random_values<double>("logits", kTokens * kExperts),
                              c = random_values<double>("c", kTokens * kTop);
    std::vector<double> scores = logits, weights(kTokens * kTop), gradients(logits.size());
    std::vector<int32_t> chosen(weights.size());
    choose_experts_ref(router, {}, scores, chosen, weights);
    choose_experts_backward_ref(router, scores, chosen, c, gradients);
    for (size_t i = 0; i < logits.size(); ++i) {
      double value[2];
      for (const int side : {0, 1}) {
        std::vector<double> moved = logits, w(weights.size());
        std::vector<int32_t> ids(w.size());
        moved[i] += side ? 1e-6 : -1e-6;
        choose_experts_ref(router, {}, moved, ids, w);
        ASSERT_EQ(ids, chosen) << "a tie: another seed";
        value[side] = std::inner_product(w.begin(), w.end(), c.begin(), 0.0);
      }
      EXPECT_NEAR(gradients[i], (value[1] - value[0]) / 2e-6, 1e-8);
    }
  }
}

template <class T>
void expect_rows(int64_t width, int64_t tokens) {
  constexpr int64_t kExperts = 5, kTop = 3;
  const int64_t num = tokens * kTop;
  const std::vector<int32_t> chosen = some_chosen(tokens, kExperts, kTop);
  std::vector<int32_t> begin(kExperts + 1), of(chosen.size()), rows(chosen.size());
  sort_by_expert(chosen, kTop, begin, of, rows);
  const auto x = random_values<T>("x", num * width), b = random_values<T>("b", num * width),
             old = random_values<T>("old", tokens * width);
  const auto w = random_values<float>("w", num);
  const std::vector<double> wide = doubles(x), wide_w = doubles(w);
  for (const bool add : {true, false})
    for (const bool weighted : {true, false}) {
      Guarded<T> y(old);
      std::vector<double> want = doubles(old);
      combine_rows<T>(x, width, rows, weighted ? std::span<const float>(w) : std::span<const float>{}, add, y.span());
      combine_rows_ref(wide, width, rows, weighted ? std::span<const double>(wide_w) : std::span<const double>{}, add,
                       want);
      EXPECT_TRUE(is_close(y, want, {.absolute = 32 * kRoundoff<float>, .relative = kRoundoff<T>}));
    }
  for (const bool placed : {true, false}) {
    const std::span<const int32_t> places = placed ? std::span<const int32_t>(rows) : std::span<const int32_t>{};
    Guarded<float> dots(rows.size());
    std::vector<double> want(rows.size());
    row_dots<T>(x, b, width, places, dots.span());
    row_dots_ref(wide, doubles(b), width, places, want);
    EXPECT_TRUE(
        is_close(dots, want, {.absolute = 4 * std::sqrt(width) * static_cast<double>(width) * kRoundoff<float>}));
    Guarded<T> scaled(x);
    want = wide;
    scale_rows<T>(w, width, places, scaled.span());
    scale_rows_ref(wide_w, width, places, want);
    EXPECT_TRUE(is_close(scaled, want, {.relative = kRoundoff<T> + kRoundoff<float>}));
  }
  std::vector<float> gate = random_values<float>("gate", num, 3);
  std::vector<double> want = doubles(gate), gradients(want.size());
  sigmoid_ref(want);
  Guarded<float> got(gate);
  sigmoid_elements(got.span());
  EXPECT_TRUE(is_close(got, want, {.relative = 8 * kRoundoff<float>}));
  sigmoid_backward_ref(wide_w, doubles<float>(got.values()), gradients);
  Guarded<T> d(gradients.size());
  sigmoid_backward<T>(w, got.values(), d.span());
  EXPECT_TRUE(is_close(d, gradients, {.absolute = 4 * kRoundoff<float>, .relative = kRoundoff<T>}));
}

TEST(Experts, RowsAreAddedScaledAndMultipliedAsTheTwinDoes) {
  for_each_isa([] {
    for (const int64_t width : kWidths)
      for (const int64_t tokens : {1, 13, 121}) {
        expect_rows<float>(width, tokens);
        expect_rows<bf16>(width, tokens);
      }
  });
}

// What the header promises: a mixture's rows have the same bits on every machine.
TEST(Experts, EveryInstructionSetGivesTheSameBits) {
  constexpr int64_t kTokens = 9, kTop = 3, kWidth = 77;
  const std::vector<int32_t> chosen = some_chosen(kTokens, 5, kTop);
  std::vector<int32_t> begin(6), of(chosen.size()), rows(chosen.size());
  sort_by_expert(chosen, kTop, begin, of, rows);
  const auto x = random_values<bf16>("x", kTokens * kTop * kWidth);
  const auto w = random_values<float>("w", kTokens * kTop);
  std::vector<bf16> first;
  std::vector<float> first_dots;
  for_each_isa([&] {
    std::vector<bf16> y(kTokens * kWidth), scaled = x;
    std::vector<float> dots(rows.size());
    combine_rows<bf16>(x, kWidth, rows, w, false, y);
    scale_rows<bf16>(w, kWidth, rows, scaled);
    row_dots<bf16>(x, scaled, kWidth, rows, dots);
    if (first.empty()) first = y, first_dots = dots;
    EXPECT_TRUE(same_bits<bf16>(y, first));
    EXPECT_TRUE(same_bits<float>(dots, first_dots));
  });
}

TEST(Experts, SigmoidsDoNotOverflow) {
  std::vector<float> x{-1000, -1, 0, 1, 1000};
  sigmoid_elements(x);
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(x[2], 0.5f);
  EXPECT_EQ(x[4], 1);
  EXPECT_NEAR(x[1], 1 / (1 + std::exp(1.0)), 1e-7);
}

TEST(Experts, SortingRefusesWhatIsNoExpert) {
  std::vector<int32_t> begin(5), tokens(2), rows(2);
  for (const int32_t id : {-1, 4, INT32_MAX}) {
    const std::vector<int32_t> chosen{0, id};
    EXPECT_THROW(sort_by_expert(chosen, 2, begin, tokens, rows), Bug) << id;
  }
}

}  // namespace
}  // namespace tern
