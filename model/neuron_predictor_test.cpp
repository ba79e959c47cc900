#include "model/neuron_predictor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/model_testing.h"
#include "model/sparse_mlp.h"

namespace tern {
namespace {

constexpr int64_t kWidth = 24, kHidden = 61, kSamples = 400, kInner = 5;

// Rows that lie in kInner dimensions, off the origin.
std::vector<float> narrow_inputs(uint64_t seed) {
  std::vector<float> n;
  for (int64_t t = 0; t < kSamples; ++t)
    for (int64_t d = 0; d < kWidth; ++d) {
      double x = 0.5 * random_normal({77, 1}, static_cast<uint64_t>(d));
      for (int64_t k = 0; k < kInner; ++k)
        x += random_normal({77, 2}, static_cast<uint64_t>(k * kWidth + d)) *
             random_normal({seed, 3}, static_cast<uint64_t>(t * kInner + k)) / static_cast<double>(k + 1);
      n.push_back(static_cast<float>(x));
    }
  return n;
}

Linear some_up(Arena& arena, DType dtype) {
  Linear up{.weight = DenseWeight{arena.allocate(dtype, {kHidden, kWidth}, MemoryClass::weights)},
            .bias = arena.allocate(dtype, {kHidden}, MemoryClass::weights),
            .out = kHidden,
            .in = kWidth,
            .branches = {}};
  fill_normal(dense_rows(up), 0.3, 1);
  fill_normal(up.bias, 0.5, 2, -0.4);
  return up;
}

struct Agreement {
  int64_t active = 0, named = 0, both = 0;
};
// Of neurons whose preactivation is not within rounding of 0.
Agreement agreement(const Linear& up, const NeuronPredictor& p) {
  const std::vector<float> n = narrow_inputs(9);
  Agreement a;
  for (int64_t t = 0; t < kSamples; ++t) {
    const std::span<const float> row = std::span(n).subspan(static_cast<size_t>(t * kWidth), kWidth);
    const std::vector<int> active = active_neurons(up, row), named = named_neurons(p, row);
    a.active += std::ssize(active), a.named += std::ssize(named);
    for (const int i : active) a.both += std::ranges::binary_search(named, i);
  }
  return a;
}

NeuronPredictor fit(const Linear& up, int64_t rank) {
  NeuronInputs moments;
  const std::vector<float> n = narrow_inputs(8);
  const size_t half = kWidth * kSamples / 2;
  add_inputs(moments, std::span(n).first(half), kWidth);
  add_inputs(moments, std::span(n).subspan(half), kWidth);
  EXPECT_EQ(moments.rows, kSamples);
  return fit_predictor(up, moments, rank);
}

TEST(NeuronPredictor, IsExactWhereInputsHaveItsRank) {
  Arena arena;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const Linear up = some_up(arena, dtype);
    const Agreement a = agreement(up, fit(up, kInner));
    EXPECT_GT(a.active, kSamples * kHidden / 10);
    EXPECT_LE(a.active - a.both, a.active / 1000);  // what lies within rounding of 0
    EXPECT_LE(a.named - a.both, a.active / 1000);
    const Agreement narrower = agreement(up, fit(up, kInner - 2));
    EXPECT_GT(narrower.active - narrower.both, narrower.active / 50);
  }
}

// If score = prediction/s with s² = E(preactivation − prediction)², and the rest does not correlate with the prediction, then the
// regression of the preactivation on the score has the slope s and leaves s².
TEST(NeuronPredictor, ScoresAreInStandardErrors) {
  Arena arena;
  const Linear up = some_up(arena, DType::f32);
  const NeuronPredictor p = fit(up, 2);
  const std::vector<float> n = narrow_inputs(8);
  std::vector<float> scores(kHidden);
  std::vector<double> aa(kHidden), as(kHidden), ss(kHidden);
  for (int64_t t = 0; t < kSamples; ++t) {
    const std::span<const float> row = std::span(n).subspan(static_cast<size_t>(t * kWidth), kWidth);
    predict_scores(p, row, scores);
    for (int64_t i = 0; i < kHidden; ++i) {
      const auto at = static_cast<size_t>(i);
      double a = element(up.bias, i);
      for (int64_t d = 0; d < kWidth; ++d) a += element(dense_rows(up), i * kWidth + d) * row[static_cast<size_t>(d)];
      aa[at] += a * a, as[at] += a * scores[at], ss[at] += static_cast<double>(scores[at]) * scores[at];
    }
  }
  for (size_t i = 0; i < kHidden; ++i) {
    const double s = as[i] / ss[i];  // regression of the preactivation on the score
    EXPECT_NEAR((aa[i] - s * as[i]) / kSamples / (s * s), 1.0, 1e-3) << i;
  }
}

TEST(NeuronPredictor, ThresholdNamesTheShareThatIsAskedFor) {
  const std::vector<float> scores = {3, -1, 2, 0, 1, 5, 4, 7, 6, 8};
  EXPECT_EQ(threshold_for(1, scores), -1);
  EXPECT_EQ(threshold_for(0.9, scores), 0);
  EXPECT_EQ(threshold_for(0.5, scores), 4);
}

}  // namespace
}  // namespace tern
