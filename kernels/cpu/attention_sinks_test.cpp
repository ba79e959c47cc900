// Attention with sinks against a softmax with one more column, and its gradients against differences.
#include "kernels/cpu/attention_sinks.h"

#include <cmath>
#include <functional>

#include "kernels/kernel_testing.h"
#include "kernels/ref/attention_ref.h"

namespace tern {
namespace {

constexpr int64_t kTokens = 9, kHeads = 4, kKvHeads = 2, kDim = 7, kGap = 3;

AttentionShape sink_shape(int64_t window) {
  return {.heads = kHeads,
          .kv_heads = kKvHeads,
          .head_dim = kDim,
          .scale = 0.4f,
          .window = window,
          .q_stride = kHeads * kDim,
          .kv_stride = kKvHeads * kDim,
          .out_stride = kHeads * kDim + kGap};
}

struct SinkCase {
  AttentionShape shape;
  std::vector<double> q = random_values<double>("q", kTokens*kHeads*kDim),
                      k = random_values<double>("k", kTokens*kKvHeads*kDim),
                      v = random_values<double>("v", kTokens*kKvHeads*kDim), sinks = random_values<double>("s", kHeads),
                      dout = random_values<double>("dout", kTokens*(kHeads*kDim + kGap));
  explicit SinkCase(int64_t window) : shape(sink_shape(window)) {}
};
struct SinkResult {
  std::vector<double> out = std::vector<double>(kTokens * (kHeads * kDim + kGap), 0.0),
                      lse = std::vector<double>(kTokens * kHeads);
};

SinkResult with_sinks(const SinkCase& c) {
  SinkResult r;
  const AttentionSequence<double> sequence{0, kTokens, kTokens, c.k.data(), c.v.data()};
  attention_forward_ref(c.shape, {&sequence, 1}, c.q.data(), r.out.data(), r.lse);
  apply_sinks(c.sinks.data(), kTokens, kHeads, kDim, c.shape.out_stride, r.out.data(), r.lse.data());
  return r;
}

TEST(AttentionSinks, AreOneMoreColumnOfTheScores) {
  for (const int64_t window : {0, 4}) {
    const SinkCase c(window);
    const SinkResult got = with_sinks(c);
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t h = 0; h < kHeads; ++h) {
        const int64_t g = h / (kHeads / kKvHeads), first = window > 0 ? std::max<int64_t>(0, t - window + 1) : 0;
        double sum = std::exp(c.sinks[static_cast<size_t>(h)]);
        std::vector<double> o(kDim, 0.0);
        for (int64_t j = first; j <= t; ++j) {
          double z = 0;
          for (int64_t d = 0; d < kDim; ++d)
            z += c.q[static_cast<size_t>((t * kHeads + h) * kDim + d)] *
                 c.k[static_cast<size_t>((j * kKvHeads + g) * kDim + d)];
          const double e = std::exp(static_cast<double>(c.shape.scale) * z);
          sum += e;
          for (int64_t d = 0; d < kDim; ++d)
            o[static_cast<size_t>(d)] += e * c.v[static_cast<size_t>((j * kKvHeads + g) * kDim + d)];
        }
        EXPECT_NEAR(got.lse[static_cast<size_t>(t * kHeads + h)], std::log(sum), 1e-12);
        for (int64_t d = 0; d < kDim; ++d)
          EXPECT_NEAR(got.out[static_cast<size_t>(t * c.shape.out_stride + h * kDim + d)],
                      o[static_cast<size_t>(d)] / sum, 1e-12);
      }
  }
}

// Along a random direction of each input: (L(x + εy) − L(x − εy))/2ε = Σ dx·y for L = Σ dout·out.
TEST(AttentionSinks, GradientsAreSlopes) {
  for (const int64_t window : {0, 4}) {
    SinkCase c(window);
    const SinkResult at = with_sinks(c);
    std::vector<double> dq(c.q.size()), dk(c.k.size()), dv(c.v.size()), ds(c.sinks.size(), 0.25);
    const int64_t starts[] = {0, kTokens};
    attention_backward_ref(c.shape, starts, c.q.data(), c.k.data(), c.v.data(), at.out.data(), c.dout.data(), at.lse,
                           dq.data(), dk.data(), dv.data());
    sinks_backward(c.sinks.data(), kTokens, kHeads, kDim, c.shape.out_stride, at.out.data(), c.dout.data(),
                   at.lse.data(), ds.data());
    for (double& d : ds) d -= 0.25;  // it adds
    const auto slope = [&](std::vector<double>& x, const std::vector<double>& along) {
      constexpr double kStep = 1e-6;
      double loss[2];
      const std::vector<double> before = x;
      for (int side = 0; side < 2; ++side) {
        for (size_t i = 0; i < x.size(); ++i) x[i] = before[i] + (side == 0 ? kStep : -kStep) * along[i];
        const SinkResult r = with_sinks(c);
        loss[side] = 0;
        for (int64_t t = 0; t < kTokens; ++t)
          for (int64_t i = 0; i < kHeads * kDim; ++i) {
            const auto place = static_cast<size_t>(t * c.shape.out_stride + i);
            loss[side] += c.dout[place] * r.out[place];
          }
      }
      x = before;
      return (loss[0] - loss[1]) / (2 * kStep);
    };
    const auto check = [&](std::vector<double>& x, const std::vector<double>& dx, const char* name) {
      const auto along = random_values<double>("along", static_cast<int64_t>(x.size()));
      double want = 0;
      for (size_t i = 0; i < x.size(); ++i) want += dx[i] * along[i];
      EXPECT_NEAR(slope(x, along), want, 1e-7 * (1 + std::abs(want))) << name << ", window " << window;
    };
    check(c.q, dq, "q"), check(c.k, dk, "k"), check(c.v, dv, "v"), check(c.sinks, ds, "sinks");
  }
}

TEST(AttentionSinks, NarrowTypesRoundOnceAndNoSinkChangesNothing) {
  const auto out = random_values<float>("out", 40 * kHeads * kDim);
  const auto lse = random_values<float>("lse", 40 * kHeads);
  const auto sinks = random_values<float>("s", kHeads);
  auto got = out;
  auto got_lse = lse;
  apply_sinks(sinks.data(), 40, kHeads, kDim, kHeads * kDim, got.data(), got_lse.data());
  std::vector<double> wide = doubles(out), wide_lse = doubles(lse);
  const std::vector<double> wide_sinks = doubles(sinks);
  apply_sinks(wide_sinks.data(), 40, kHeads, kDim, kHeads * kDim, wide.data(), wide_lse.data());
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(wide[i]));
  for (size_t i = 0; i < lse.size(); ++i) EXPECT_EQ(got_lse[i], static_cast<float>(wide_lse[i]));
  const std::vector<float> none(kHeads, -INFINITY);
  got = out, got_lse = lse;
  apply_sinks(none.data(), 40, kHeads, kDim, kHeads * kDim, got.data(), got_lse.data());
  EXPECT_EQ(got, out);
  EXPECT_EQ(got_lse, lse);
}

}  // namespace
}  // namespace tern
