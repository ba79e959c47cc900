#include "infer/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

std::vector<int32_t> ids(const std::vector<std::pair<int32_t, double>>& candidates) {
  std::vector<int32_t> result;
  for (const auto& [id, p] : candidates) result.push_back(id);
  return result;
}

TEST(Sampling, GreedyTakesTheHighestAndTheLowestIdAmongEquals) {
  std::vector<float> logits = {0.5f, 2.f, -1.f, 2.f};
  EXPECT_EQ(sample_token({}, {}, 0, 0, 0, logits), 1);
  std::vector<float> masked = {-INFINITY, -INFINITY, -7.f};
  EXPECT_EQ(sample_token({}, {}, 0, 0, 0, masked), 2);
  std::vector<float> none = {-INFINITY, NAN};
  EXPECT_THROW(sample_token({}, {}, 0, 0, 0, none), Error);
}

TEST(Sampling, FiltersByHand) {
  // probabilities 0.4, 0.3, 0.2, 0.1
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  EXPECT_EQ(ids(candidates({.temperature = 1, .top_k = 2}, logits)), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(ids(candidates({.temperature = 1, .top_p = 0.69}, logits)), (std::vector<int32_t>{1, 3}));
  EXPECT_EQ(ids(candidates({.temperature = 1, .top_p = 0.71}, logits)), (std::vector<int32_t>{1, 2, 3}));
  EXPECT_EQ(ids(candidates({.temperature = 1, .top_p = 1e-9}, logits)), (std::vector<int32_t>{1}));
  EXPECT_EQ(ids(candidates({.temperature = 1, .min_p = 0.51}, logits)), (std::vector<int32_t>{1, 3}));
  const auto both =
      candidates({.temperature = 1, .top_k = 3, .top_p = 0.75}, logits);  // top-p on 4/9, 3/9, 2/9: 7/9 reaches it
  EXPECT_EQ(ids(both), (std::vector<int32_t>{1, 3}));
  EXPECT_NEAR(both[0].second, 4. / 7, 1e-6);
}

TEST(Sampling, TopKKeepsTies) {
  const std::vector<float> logits = {1.f, 0.f, 1.f, 1.f};
  EXPECT_EQ(ids(candidates({.temperature = 1, .top_k = 2}, logits)), (std::vector<int32_t>{0, 2, 3}));
}

TEST(Sampling, PenaltiesByHand) {
  const std::vector<int32_t> history = {0, 1, 2, 2};  // 0 and 1 are the prompt
  std::vector<float> logits = {2.f, -2.f, 4.f, 1.f};
  apply_penalties({.repetition_penalty = 2.0}, history, 2, logits);
  EXPECT_EQ(logits, (std::vector<float>{1.f, -4.f, 2.f, 1.f}));
  logits = {2.f, -2.f, 4.f, 1.f};
  apply_penalties({.presence_penalty = 0.5, .frequency_penalty = 0.25}, history, 2, logits);
  EXPECT_EQ(logits, (std::vector<float>{2.f, -2.f, 3.f, 1.f}));
}

TEST(Sampling, ABiasComesBehindThePenaltiesAndDecidesAGreedyDraw) {
  SamplingOptions o;
  o.logit_bias = {{0, 1.0}, {2, -100.0}};
  EXPECT_TRUE(has_penalties(o));
  o.repetition_penalty = 2;
  std::vector<float> logits = {2.f, 1.5f, 3.f};
  const std::vector<int32_t> history = {0};
  apply_penalties(o, history, 0, logits);
  EXPECT_EQ(logits, (std::vector<float>{2.f, 1.5f, -97.f}));
  logits = {2.f, 1.5f, 3.f};
  o.repetition_penalty = 1;
  EXPECT_EQ(sample_token(o, history, 0, 0, 0, logits), 0);
}

TEST(Sampling, TheLikeliestAreInOrderTheLowestIdFirstAmongEquals) {
  const std::vector<float> logits = {0.5f, 2.f, -INFINITY, 2.f, 1.f};
  const auto best = likeliest(logits, 3);
  EXPECT_EQ(ids(best), (std::vector<int32_t>{1, 3, 4}));
  for (const auto& [id, value] : best) EXPECT_EQ(value, log_probability(logits, id));
  EXPECT_EQ(likeliest(logits, 20).size(), 5u);
}

TEST(Sampling, ADrawDependsOnSeedSequenceAndPositionAlone) {
  const SamplingOptions options{.temperature = 1, .seed = 5};
  std::map<int32_t, int> seen;
  for (uint64_t position = 0; position < 64; ++position) {
    std::vector<float> a(50, 0.f), b(50, 0.f);
    const int32_t token = sample_token(options, {}, 0, 3, position, a);
    EXPECT_EQ(token, sample_token(options, {}, 0, 3, position, b));
    ++seen[token];
  }
  EXPECT_GT(seen.size(), 20u);
  std::vector<float> a(5000, 0.f), b(5000, 0.f), c(5000, 0.f);
  const int32_t first = sample_token(options, {}, 0, 3, 9, a);
  EXPECT_NE(first, sample_token(options, {}, 0, 4, 9, b));
  EXPECT_NE(first, sample_token({.temperature = 1, .seed = 6}, {}, 0, 3, 9, c));
}

// Chi-square against the exact distribution: 11 degrees of freedom, 1e5 draws. 31.3 is the 0.999 quantile; the draws
// are a fixed sequence, so this either always passes or never.
TEST(Sampling, DrawsFollowTheDistribution) {
  const std::vector<float> base = {0.f, 1.f, 2.f, -1.f, 0.5f, 0.3f, -0.2f, 1.7f, 0.9f, -2.f, 1.1f, 0.1f};
  const SamplingOptions options{.temperature = 0.8, .seed = 42};
  const auto expected = candidates(options, base);
  std::vector<int64_t> counts(base.size(), 0);
  const int64_t draws = 100000;
  for (int64_t i = 0; i < draws; ++i) {
    std::vector<float> logits = base;
    ++counts[static_cast<size_t>(
        sample_token(options, {}, 0, static_cast<uint64_t>(i % 10), static_cast<uint64_t>(i / 10), logits))];
  }
  double chi_square = 0;
  for (const auto& [id, p] : expected) {
    const double want = p * static_cast<double>(draws), got = static_cast<double>(counts[static_cast<size_t>(id)]);
    chi_square += (got - want) * (got - want) / want;
  }
  EXPECT_LT(chi_square, 31.3);
}

// Without filters a token is drawn without a list of candidates; top_k of all ids makes one.
TEST(Sampling, AFilterThatFiltersNothingChangesNoDraw) {
  std::vector<float> base(1000);
  for (size_t i = 0; i < base.size(); ++i) base[i] = static_cast<float>(i * 7919 % 1000) * 0.01f;
  for (size_t i = 0; i < base.size(); i += 5) base[i] = -INFINITY;
  base.back() = -INFINITY;
  const SamplingOptions plain{.temperature = 0.7, .seed = 3}, filtered{.temperature = 0.7, .top_k = 1000, .seed = 3};
  std::map<int32_t, int> seen;
  for (uint64_t position = 0; position < 2000; ++position) {
    std::vector<float> a = base, b = base;
    const int32_t token = sample_token(plain, {}, 0, 1, position, a);
    ASSERT_EQ(token, sample_token(filtered, {}, 0, 1, position, b)) << position;
    ASSERT_NE(token % 5, 0);
    ++seen[token];
  }
  EXPECT_GT(seen.size(), 200u);
}

TEST(Sampling, RangesAreNamed) {
  const auto message = [](const SamplingOptions& options) {
    try {
      check_sampling(options);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::usage);
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_NE(message({.temperature = -1}).find("--temperature is -1"), std::string::npos);
  EXPECT_NE(message({.top_p = 0}).find("--top-p"), std::string::npos);
  EXPECT_NE(message({.min_p = 1.5}).find("--min-p"), std::string::npos);
  EXPECT_NE(message({.repetition_penalty = 0}).find("--repetition-penalty"), std::string::npos);
  EXPECT_NE(message({.temperature = NAN}).find("--temperature"), std::string::npos);
}

TEST(Sampling, LogProbabilityIsLogSoftmax) {
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  EXPECT_NEAR(log_probability(logits, 1), std::log(0.4), 1e-6);
}

TEST(Sampling, LogProbabilityOfALargeVocabularyIsThatInDoubles) {
  for (const size_t vocab : {1, 15, 17, 32000, 151936}) {
    const RngKey key{7, vocab};
    std::vector<float> logits(vocab);
    for (size_t i = 0; i < vocab; ++i) logits[i] = static_cast<float>(24 * random_uniform(key, i) - 12);
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    for (const size_t token : {size_t{0}, vocab / 2, vocab - 1}) {
      const double want = static_cast<double>(logits[token]) - std::log(sum);
      EXPECT_NEAR(log_probability(logits, static_cast<int32_t>(token)), want, 1e-6 * std::max(1.0, -want)) << vocab;
    }
  }
}

}  // namespace
}  // namespace tern
