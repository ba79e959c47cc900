#include "kernels/cpu/experts.h"

#include "base/bug.h"
#include "kernels/cpu/router.h"
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
