#include "kernels/cpu/experts.h"

#include <numeric>

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr int64_t kWidths[] = {1, 7, 31, 33, 257, 1000};

std::vector<int32_t> some_chosen(int64_t tokens, int64_t experts, int64_t top_k) {
  std::vector<float> scores = random_values<float>("scores", tokens * experts), weights(tokens * top_k);
  std::vector<int32_t> chosen(weights.size());
  choose_experts<float>({experts, top_k}, {}, scores, chosen, weights);
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

TEST(Experts, WeightsAreOfTheGreatestScores) {
  for (const bool normalized : {true, false}) {
    constexpr int64_t kTokens = 50, kExperts = 9, kTop = 3;
    std::vector<double> logits = random_values<double>("logits", kTokens * kExperts, 2), scores = logits;
    std::vector<double> weights(kTokens * kTop);
    std::vector<int32_t> chosen(weights.size());
    choose_experts<double>({kExperts, kTop, normalized}, {}, scores, chosen, weights);
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

// The derivation, by central differences of Σ c·w.
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
    choose_experts<double>(router, {}, scores, chosen, weights);
    choose_experts_backward<double>(router, scores, chosen, weights, c, gradients);
    for (size_t i = 0; i < logits.size(); ++i) {
      double value[2];
      for (const int side : {0, 1}) {
        std::vector<double> moved = logits, w(weights.size());
        std::vector<int32_t> ids(w.size());
        moved[i] += side ? 1e-6 : -1e-6;
        choose_experts<double>(router, {}, moved, ids, w);
        ASSERT_EQ(ids, chosen) << "a tie: another seed";
        value[side] = std::inner_product(w.begin(), w.end(), c.begin(), 0.0);
      }
      EXPECT_NEAR(gradients[i], (value[1] - value[0]) / 2e-6, 1e-8);
    }
  }
}

template <class T>
void expect_rows(int64_t width) {
  constexpr int64_t kTokens = 13, kExperts = 5, kTop = 3, kRows = kTokens * kTop;
  const std::vector<int32_t> chosen = some_chosen(kTokens, kExperts, kTop);
  std::vector<int32_t> begin(kExperts + 1), of(kRows), rows(kRows);
  sort_by_expert(chosen, kTop, begin, of, rows);
  const auto x = random_values<T>("x", kRows * width), b = random_values<T>("b", kRows * width),
             old = random_values<T>("old", kTokens * width);
  const auto w = random_values<float>("w", kRows);
  const std::vector<double> wide = doubles(x), wide_b = doubles(b);
  for (const bool add : {true, false})
    for (const bool weighted : {true, false}) {
      Guarded<T> y(old);
      combine_rows<T>(x, width, rows, weighted ? std::span<const float>(w) : std::span<const float>{}, add, y.span());
      std::vector<double> want = doubles(old), size(want.size());
      if (!add) std::fill(want.begin(), want.end(), 0.0);
      for (int64_t i = 0; i < kRows; ++i)
        for (int64_t j = 0; j < width; ++j) {
          const double term = (weighted ? static_cast<double>(w[static_cast<size_t>(i)]) : 1.0) *
                              wide[static_cast<size_t>(rows[static_cast<size_t>(i)] * width + j)];
          want[static_cast<size_t>(i / kTop * width + j)] += term;
        }
      EXPECT_TRUE(is_close(y, want, {.absolute = 32 * kRoundoff<float>, .relative = kRoundoff<T>}));
      EXPECT_TRUE(y.guards_intact());
    }
  Guarded<float> dots(static_cast<size_t>(kRows));
  row_dots<T>(x, b, width, rows, dots.span());
  std::vector<double> want(kRows);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < width; ++j) {
      const auto at = static_cast<size_t>(rows[static_cast<size_t>(i)] * width + j);
      want[static_cast<size_t>(i)] += wide[at] * wide_b[at];
    }
  EXPECT_TRUE(is_close(dots, want, {.absolute = 4 * std::sqrt(width) * static_cast<double>(width) * kRoundoff<float>}));
  Guarded<T> scaled(x);
  scale_rows<T>(w, width, rows, scaled.span());
  std::vector<double> product = wide;
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < width; ++j)
      product[static_cast<size_t>(rows[static_cast<size_t>(i)] * width + j)] *= w[static_cast<size_t>(i)];
  EXPECT_TRUE(is_close(scaled, product, {.relative = kRoundoff<T> + kRoundoff<float>}));
  EXPECT_TRUE(dots.guards_intact() && scaled.guards_intact());
}

TEST(Experts, RowsAreAddedScaledAndMultipliedAsInDoubles) {
  for (const int64_t width : kWidths) {
    expect_rows<float>(width);
    expect_rows<bf16>(width);
  }
}

TEST(Experts, SigmoidsDoNotOverflow) {
  std::vector<float> x{-1000, -1, 0, 1, 1000};
  sigmoid_elements<float>(x);
  EXPECT_EQ(x[0], 0);
  EXPECT_EQ(x[2], 0.5f);
  EXPECT_EQ(x[4], 1);
  EXPECT_NEAR(x[1], 1 / (1 + std::exp(1.0)), 1e-7);
}

}  // namespace
}  // namespace tern
