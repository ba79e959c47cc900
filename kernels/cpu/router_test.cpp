#include "kernels/cpu/router.h"

#include <numeric>

#include "kernels/kernel_testing.h"
#include "kernels/ref/experts_ref.h"

namespace tern {
namespace {

// The twin itself, against the definition: no ties, so the chosen are those that fewer than K exceed.
TEST(Router, WeightsOfTheTwinAreOfTheGreatestScores) {
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

TEST(Router, ChoiceAndItsGradientsAreTheTwins) {
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
TEST(Router, GradientsOfLogitsAreTheWeights) {
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

}  // namespace
}  // namespace tern
