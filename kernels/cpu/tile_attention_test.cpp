#include "kernels/cpu/tile_attention.h"

#include <algorithm>
#include <thread>

#include "kernels/attention_testing.h"
#include "kernels/ref/attention_ref.h"

namespace tern {
namespace {

/// The sums of |terms| of the five products, by the formulas: what a rounding of a factor to bf16 costs is a share of
/// them.
struct Terms {
  std::vector<double> out, dq, dk, dv;
};
Terms terms_of(const AttentionCase<bf16>& c, const std::vector<int64_t>& starts, const Reference& forward) {
  const AttentionShape& s = c.shape;
  const auto q = doubles(c.q), k = doubles(c.k), v = doubles(c.v), dout = doubles(c.dout);
  Terms t{std::vector<double>(forward.out.size(), std::nan("")), std::vector<double>(q.size(), std::nan("")),
          std::vector<double>(k.size(), std::nan("")), std::vector<double>(v.size(), std::nan(""))};
  const auto zero = [](std::vector<double>& x, int64_t used, int64_t stride) {
    for (size_t i = 0; i < x.size(); ++i)
      if (static_cast<int64_t>(i) % stride < used) x[i] = 0;
  };
  zero(t.out, c.q_used, s.out_stride), zero(t.dq, c.q_used, s.q_stride);
  zero(t.dk, c.kv_used, s.kv_stride), zero(t.dv, c.kv_used, s.kv_stride);
  const double scale = static_cast<double>(s.scale);
  for (size_t sequence = 0; sequence + 1 < starts.size(); ++sequence)
    for (int64_t i = starts[sequence]; i < starts[sequence + 1]; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t kv = h / (s.heads / s.kv_heads) * s.head_dim, qi = i * s.q_stride + h * s.head_dim,
                      oi = i * s.out_stride + h * s.head_dim;
        double delta = 0;
        for (int64_t d = 0; d < s.head_dim; ++d) delta += std::abs(dout[oi + d] * forward.out[oi + d]);
        const int64_t first = s.window > 0 ? std::max(starts[sequence], i - s.window + 1) : starts[sequence];
        for (int64_t j = first; j <= i; ++j) {
          const int64_t kj = j * s.kv_stride + kv;
          double score = 0, slope = delta;
          for (int64_t d = 0; d < s.head_dim; ++d) {
            score += q[qi + d] * k[kj + d];
            slope += std::abs(dout[oi + d] * v[kj + d]);
          }
          const double p = std::exp(scale * score - forward.lse[static_cast<size_t>(i * s.heads + h)]);
          for (int64_t d = 0; d < s.head_dim; ++d) {
            t.out[oi + d] += p * std::abs(v[kj + d]);
            t.dv[kj + d] += p * std::abs(dout[oi + d]);
            t.dq[qi + d] += scale * p * slope * std::abs(k[kj + d]);
            t.dk[kj + d] += scale * p * slope * std::abs(q[qi + d]);
          }
        }
      }
  return t;
}

/// Within `share` of the terms and one rounding of the result; gaps between rows untouched; NaN fails.
testing::AssertionResult within_terms(Guarded<bf16>& got, const std::vector<double>& want,
                                      const std::vector<double>& terms, int64_t used, int64_t stride, double share) {
  if (!got.guards_intact()) return testing::AssertionFailure() << "wrote beside the buffer";
  if (auto gaps = gaps_untouched(got.values(), used, stride); !gaps) return gaps;
  for (size_t i = 0; i < want.size(); ++i)
    if (static_cast<int64_t>(i) % stride < used)
      if (!(std::abs(value_of(got.values()[i]) - want[i]) <=
            share * terms[i] + kRoundoff<bf16> * std::abs(want[i]) + 1e-30))
        return testing::AssertionFailure()
               << "[" << i << "] got " << value_of(got.values()[i]) << ", want " << want[i] << ", terms " << terms[i];
  return testing::AssertionSuccess();
}

/// A factor's rounding to bf16, and what f32 adds to it (scores of up to some tens, so exp errs by a few 1e-6).
constexpr double kShare = kRoundoff<bf16> + 2e-5;

void matches(const AttentionCase<bf16>& c, const std::vector<int64_t>& starts) {
  const AttentionShape& s = c.shape;
  const Reference want = reference_forward(c, starts);
  const Terms terms = terms_of(c, starts, want);
  Guarded<bf16> out(want.out.size());
  Guarded<float> lse(want.lse.size());
  tile_attention_forward(s, starts, c.q.data(), c.k.data(), c.v.data(), out.data(), lse.span());
  EXPECT_TRUE(within_terms(out, want.out, terms.out, c.q_used, s.out_stride, kShare)) << "out";
  EXPECT_TRUE(is_close(lse, want.lse, {.absolute = 2e-5, .relative = 4 * kRoundoff<float>}));
  Guarded<bf16> again(want.out.size());
  tile_attention_forward(s, starts, c.q.data(), c.k.data(), c.v.data(), again.data(), {});
  EXPECT_TRUE(same_bits(again.values(), out.values())) << "without sums";

  std::vector<bf16> rounded_out;
  for (const double x : want.out) rounded_out.push_back(rounded<bf16>(x));
  std::vector<float> lse32;
  for (const double x : want.lse) lse32.push_back(static_cast<float>(x));
  const auto q = doubles(c.q), k = doubles(c.k), v = doubles(c.v), dout = doubles(c.dout);
  std::vector<double> dq(q.size(), std::nan("")), dk(k.size(), std::nan("")), dv(v.size(), std::nan(""));
  attention_backward_ref(s, starts, q.data(), k.data(), v.data(), doubles(rounded_out).data(), dout.data(),
                         doubles(lse32), dq.data(), dk.data(), dv.data());
  Guarded<bf16> got_dq(dq.size()), got_dk(dk.size()), got_dv(dv.size());
  tile_attention_backward(s, starts, c.q.data(), c.k.data(), c.v.data(), rounded_out.data(), c.dout.data(), lse32,
                          got_dq.data(), got_dk.data(), got_dv.data());
  EXPECT_TRUE(within_terms(got_dq, dq, terms.dq, c.q_used, s.q_stride, kShare)) << "dq";
  EXPECT_TRUE(within_terms(got_dk, dk, terms.dk, c.kv_used, s.kv_stride, kShare)) << "dk";
  EXPECT_TRUE(within_terms(got_dv, dv, terms.dv, c.kv_used, s.kv_stride, kShare)) << "dv";
}

TEST(TileAttention, MatchesRefOnRaggedBatches) {
  for_each_isa_that(has_tile_attention, "has attention on tiles", [] {
    for (const AttentionShape& s : kShapes) {
      SCOPED_TRACE(testing::Message() << s.heads << " heads of " << s.head_dim << ", window " << s.window);
      matches(AttentionCase<bf16>(s), kStarts);
    }
  });
}

/// Several chunks of queries in the backward, whose sums of keys go on from chunk to chunk, with windows that end in
/// another chunk than the key's; whole on one thread, in parts for many.
TEST(TileAttention, MatchesRefOverManyChunks) {
  for_each_isa_that(has_tile_attention, "has attention on tiles", [] {
    for (const int64_t window : {0, 70}) {
      SCOPED_TRACE(testing::Message() << "window " << window);
      const std::vector<int64_t> starts = {0, 300, 1000};
      const AttentionCase<bf16> c(shape_of(2, 1, 32, window), starts.back());
      for (const int threads : {1, 8})
        with_threads(threads, [&] {
          EXPECT_EQ(tile_attention_tasks(c.shape, starts, true) == 2, threads == 1);
          matches(c, starts);
        });
    }
  });
}

/// Lengths whose backward wants more scratch than a longer neighbour's: a chunk holds fewer queries the longer the
/// sequence is. On a thread that holds no scratch yet.
TEST(TileAttention, ScratchIsEnoughForEverySequenceNotTheLongestAlone) {
  for_each_isa_that(has_tile_attention, "has attention on tiles", [] {
    for (const int64_t dim : {32, 64})
      for (const std::vector<int64_t>& starts : {std::vector<int64_t>{0, 768, 1440, 1536}, {0, 544, 1056}}) {
        SCOPED_TRACE(testing::Message() << "heads of " << dim << ", up to row " << starts.back());
        const AttentionShape s = shape_of(1, 1, dim, 0);
        std::thread([&] {
          omp_set_num_threads(1);
          const int64_t all = tile_attention_scratch_bytes(s, starts, true);
          for (size_t i = 0; i + 1 < starts.size(); ++i) {
            const std::vector<int64_t> alone = {0, starts[i + 1] - starts[i]};
            EXPECT_GE(all, tile_attention_scratch_bytes(s, alone, true)) << "sequence " << i;
          }
          matches(AttentionCase<bf16>(s, starts.back()), starts);
        }).join();
      }
  });
}

/// A sequence longer than one chunk of the backward, beside others and alone, whole or in parts: the same bits.
TEST(TileAttention, NeitherNeighboursNorThreadsChangeABit) {
  for_each_isa_that(has_tile_attention, "has attention on tiles", [] {
    for (const int64_t window : {0, 100}) {
      const AttentionShape s = shape_of(4, 2, 48, window);
      const AttentionCase<bf16> c(s, 1000);
      struct Result {
        std::vector<bf16> out, dq, dk, dv;
        std::vector<float> lse;
      };
      const auto run = [&](std::vector<int64_t> starts, int64_t from) {
        const size_t rows = static_cast<size_t>(starts.back());
        Result r{std::vector<bf16>(rows * s.out_stride), std::vector<bf16>(rows * s.q_stride),
                 std::vector<bf16>(rows * s.kv_stride), std::vector<bf16>(rows * s.kv_stride),
                 std::vector<float>(rows * s.heads)};
        const bf16 *q = c.q.data() + from * s.q_stride, *k = c.k.data() + from * s.kv_stride,
                   *v = c.v.data() + from * s.kv_stride, *dout = c.dout.data() + from * s.out_stride;
        tile_attention_forward(s, starts, q, k, v, r.out.data(), r.lse);
        tile_attention_backward(s, starts, q, k, v, r.out.data(), dout, r.lse, r.dq.data(), r.dk.data(), r.dv.data());
        return r;
      };
      Result both, other, alone;
      with_threads(1, [&] { both = run({0, 100, 1000}, 0); });
      with_threads(16, [&] {
        const std::vector<int64_t> starts = {0, 100, 1000};
        EXPECT_EQ(tile_attention_tasks(s, starts, false), 2 + 2 * 6) << "a short sequence whole, a long one in parts";
        EXPECT_EQ(tile_attention_tasks(s, starts, true), 2 + 2 * 12);
        other = run(starts, 0);
      });
      with_threads(3, [&] { alone = run({0, 900}, 100); });
      const auto tail = [](const std::vector<bf16>& x, size_t count) { return std::span(x).last(count); };
      for (const auto member : {&Result::out, &Result::dq, &Result::dk, &Result::dv}) {
        EXPECT_TRUE(same_bits<bf16>(other.*member, both.*member));
        EXPECT_TRUE(same_bits<bf16>(alone.*member, tail(both.*member, (alone.*member).size())));
      }
      EXPECT_TRUE(same_bits<float>(other.lse, both.lse));
    }
  });
}

}  // namespace
}  // namespace tern
