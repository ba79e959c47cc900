#include "kernels/cpu/cross_entropy.h"

#include "base/bug.h"
#include "kernels/kernel_testing.h"
#include "kernels/ref/cross_entropy_ref.h"

namespace tern {
namespace {

struct LogitsSize {
  int64_t rows, vocab;
};
constexpr LogitsSize kLogitsSizes[] = {{1, 1}, {3, 7}, {7, 31}, {2, 33}, {5, 64}, {4, 65}, {3, 1000}, {2, 32003}};

struct CrossEntropyCase {
  std::vector<float> logits, weights;
  std::vector<int32_t> targets;
  explicit CrossEntropyCase(LogitsSize s, double spread = 3)
      : logits(random_values<float>("logits", s.rows * s.vocab, spread, -20)),
        weights(random_values<float>("weights", s.rows, 0.5, 1)) {
    for (int64_t r = 0; r < s.rows; ++r)
      targets.push_back(r % 3 == 2 ? -1 : static_cast<int32_t>(random_u64({test_seed(), 9}, r) % s.vocab));
  }
};

/// Σ exp of `vocab` terms in at least 16 chains (portable: 4 vectors of 4), each exp within 4 roundings (its argument's
/// subtraction costs |x - top| more, relative): for logits within `range` of their maximum.
double relative_error(int64_t vocab, double range) {
  return (static_cast<double>(vocab) / 16 + 16 + range) * kRoundoff<float>;
}

TEST(CrossEntropy, MatchesRefOnOddTails) {
  for_each_isa([] {
    for (const LogitsSize s : kLogitsSizes)
      for (const bool weighted : {false, true}) {
        SCOPED_TRACE(testing::Message() << s.rows << " rows of " << s.vocab << ", weighted " << weighted);
        const CrossEntropyCase c(s);
        const auto weights = weighted ? c.weights : std::vector<float>();
        auto want = doubles(c.logits);
        std::vector<double> want_losses(c.targets.size());
        cross_entropy_forward_backward_ref(s.vocab, c.targets, doubles(weights), 0.125, want, want_losses);

        const double error = relative_error(s.vocab, 30);
        Guarded<float> logits(c.logits), losses(c.targets.size()), only(c.targets.size());
        cross_entropy(s.vocab, c.targets, logits.values(), only.span());
        EXPECT_TRUE(same_bits(logits.values(), std::span<const float>(c.logits))) << "logits were changed";
        EXPECT_TRUE(is_close(only, want_losses, {.absolute = error, .relative = kRoundoff<float>}));
        cross_entropy_forward_backward(s.vocab, c.targets, weights, 0.125f, logits.span(), losses.span());
        EXPECT_TRUE(same_bits(losses.values(), only.values()));
        // softmax - 1 at the target cancels: absolute error there, of size scale·weight.
        const double largest_weight = weighted ? 4 : 1;
        EXPECT_TRUE(is_close(logits, want, {.absolute = 0.125 * largest_weight * error * 1e-3, .relative = 0}) ||
                    is_close(logits, want, {.absolute = 0.125 * largest_weight * error, .relative = 2 * error}));
        EXPECT_TRUE(losses.guards_intact());
      }
  });
}

TEST(CrossEntropy, GradientIsTheSlopeOfTheLoss) {
  constexpr int64_t kRows = 4, kVocab = 37;
  const CrossEntropyCase c({kRows, kVocab});
  const auto logits = doubles(c.logits), weights = doubles(c.weights),
             direction = doubles(random_values<float>("d", kRows * kVocab));
  auto gradient = logits;
  std::vector<double> losses(kRows);
  cross_entropy_forward_backward_ref(kVocab, c.targets, weights, 0.5, gradient, losses);
  double want = 0;
  for (size_t i = 0; i < gradient.size(); ++i) want += gradient[i] * direction[i];
  const double got = slope(
      [&](double t) {
        auto moved = logits;
        for (size_t i = 0; i < moved.size(); ++i) moved[i] += t * direction[i];
        cross_entropy_ref(kVocab, c.targets, moved, losses);
        double total = 0;
        for (int64_t r = 0; r < kRows; ++r) total += 0.5 * weights[r] * losses[r];
        return total;
      },
      1e-5);
  EXPECT_NEAR(got, want, 1e-8);
}

TEST(CrossEntropy, HugeLogitsStayFiniteAndNanShows) {
  for_each_isa([] {
    const std::vector<int32_t> targets = {1, 0, 2};
    std::vector<float> logits = {3e38f, -3e38f, 0, -1e30f, -1e30f, -1e30f, 0, NAN, 1}, losses(3);
    cross_entropy_forward_backward(3, targets, {}, 1, logits, losses);
    EXPECT_TRUE(std::isinf(losses[0]) && losses[0] > 0);  // 6e38 is not an f32
    EXPECT_EQ(logits[0], 1.0f);
    EXPECT_EQ(logits[1], -1.0f);
    EXPECT_NEAR(losses[1], std::log(3.0), 1e-6);
    EXPECT_TRUE(std::isnan(losses[2]) && std::isnan(logits[6]) && std::isnan(logits[8]));
  });
}

TEST(CrossEntropy, ARowHasTheSameBitsAloneAndInABatch) {
  constexpr int64_t kRows = 33, kVocab = 1003;
  const CrossEntropyCase c({kRows, kVocab});
  for_each_isa([&] {
    std::vector<float> one = c.logits, two = c.logits, alone = c.logits, l1(kRows), l2(kRows), la(kRows);
    with_threads(1, [&] { cross_entropy_forward_backward(kVocab, c.targets, c.weights, 0.5f, one, l1); });
    with_threads(2, [&] { cross_entropy_forward_backward(kVocab, c.targets, c.weights, 0.5f, two, l2); });
    for (int64_t r = 0; r < kRows; ++r)
      cross_entropy_forward_backward(kVocab, std::span(c.targets).subspan(r, 1), std::span(c.weights).subspan(r, 1),
                                     0.5f, std::span(alone).subspan(r * kVocab, kVocab), std::span(la).subspan(r, 1));
    EXPECT_TRUE(same_bits<float>(two, one) && same_bits<float>(alone, one));
    EXPECT_TRUE(same_bits<float>(l2, l1) && same_bits<float>(la, l1));
  });
}

TEST(CrossEntropy, RefusesATargetOutsideTheVocabulary) {
  std::vector<float> logits(3), losses(1);
  const std::vector<int32_t> target = {3};
  EXPECT_THROW(cross_entropy(3, target, logits, losses), Bug);
}

}  // namespace
}  // namespace tern
