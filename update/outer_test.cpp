// Rarely talking ranks: codes, fragments and their turns, LocalSGD that is the plain step on dyadic numbers, Nesterov's outer step by hand,
// Streaming DiLoCo that is DiLoCo, bytes to the byte.
#include "update/outer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>

#include "base/rng.h"
#include "comm/ranks_testing.h"
#include "kernels/kernel_testing.h"

namespace tern {
namespace {

TEST(OuterCodec, CodesAreTheNearestAndWhatTheyLeaveOutIsKept) {
  for (const OuterCodec codec : {OuterCodec::int8, OuterCodec::int4})
    for (const int64_t n : {0, 1, 7, 127, 128, 129, 1000}) {
      SCOPED_TRACE(n);
      const int64_t blocks = (n + 127) / 128;
      EXPECT_EQ(codec_bytes(codec, n), blocks * (codec == OuterCodec::int8 ? 132 : 68));
      std::vector<double> x(static_cast<size_t>(n)), left;
      for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal({5, 1}, i);
      left = x;
      std::vector<uint8_t> codes(static_cast<size_t>(codec_bytes(codec, n)));
      encode<double>(codec, left, codes);
      std::vector<double> back(x.size());
      decode<double>(codec, codes, back);
      for (int64_t b = 0; b < blocks; ++b) {
        double largest = 0;
        for (int64_t i = b * 128; i < std::min(n, (b + 1) * 128); ++i)
          largest = std::max(largest, std::abs(x[static_cast<size_t>(i)]));
        const double half = 0.5 * largest / (codec == OuterCodec::int8 ? 127 : 7);
        for (auto i = static_cast<size_t>(b * 128); i < static_cast<size_t>(std::min(n, (b + 1) * 128)); ++i) {
          EXPECT_LE(std::abs(back[i] - x[i]), half * (1 + 1e-6)) << i;
          EXPECT_NEAR(back[i] + left[i], x[i], 1e-12) << i;
        }
      }
    }
}

TEST(OuterCodec, ZerosStayZerosAndWhatIsNotFiniteIsNotHidden) {
  for (const OuterCodec codec : {OuterCodec::int8, OuterCodec::int4, OuterCodec::sign}) {
    std::vector<float> x(130, 0.0f);
    std::vector<uint8_t> codes(static_cast<size_t>(codec_bytes(codec, 130)));
    encode<float>(codec, x, codes);
    std::vector<float> back(x.size(), 1.0f);
    decode<float>(codec, codes, back);
    for (const float v : back) EXPECT_EQ(v, 0);
    x[3] = std::numeric_limits<float>::infinity();
    encode<float>(codec, x, codes);
    decode<float>(codec, codes, back);
    EXPECT_TRUE(std::isnan(back[5]));
    EXPECT_EQ(back[129], 0) << "another block";
  }
}

// What is left of signs with the mean |x| is the least that any scale leaves: |x|² - n·mean².
TEST(OuterCodec, SignsKeepWhatTheyLeaveOut) {
  for (const int64_t n : {1, 7, 127, 128, 129, 1000}) {
    std::vector<double> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = random_normal({6, 1}, i);
    std::vector<double> left = x, back(x.size());
    std::vector<uint8_t> codes(static_cast<size_t>(codec_bytes(OuterCodec::sign, n)));
    EXPECT_EQ(codes.size(), static_cast<size_t>((n + 127) / 128 * 20));
    encode<double>(OuterCodec::sign, left, codes);
    decode<double>(OuterCodec::sign, codes, back);
    for (size_t begin = 0; begin < x.size(); begin += 128) {
      double sum = 0, square = 0, rest = 0;
      const size_t end = std::min(x.size(), begin + 128);
      for (size_t i = begin; i < end; ++i) {
        sum += std::abs(x[i]), square += x[i] * x[i], rest += left[i] * left[i];
        EXPECT_NEAR(back[i] + left[i], x[i], 1e-12);
        EXPECT_EQ(back[i] > 0, x[i] > 0);
      }
      EXPECT_NEAR(rest, square - sum * sum / static_cast<double>(end - begin), 1e-5 * square);
    }
  }
}

TEST(Outer, EachFragmentHasItsTurnOnceInARound) {
  const OuterConfig c{.every = 7, .fragments = 3, .delay = 2};
  std::map<int, std::vector<int64_t>> sent, counted;
  for (int64_t step = 0; step <= 21; ++step)
    for (int f = 0; f < 3; ++f) {
      if (sends_at(c, f, step)) sent[f].push_back(step);
      if (counts_at(c, f, step)) counted[f].push_back(step);
    }
  EXPECT_EQ(sent[0], (std::vector<int64_t>{7, 14, 21}));
  EXPECT_EQ(sent[1], (std::vector<int64_t>{5, 12, 19}));
  EXPECT_EQ(sent[2], (std::vector<int64_t>{3, 10, 17}));
  EXPECT_EQ(counted[1], (std::vector<int64_t>{7, 14, 21}));
  EXPECT_EQ(counted[0], (std::vector<int64_t>{9, 16}));
  std::vector<int> fragments;
  for (int unit = 0; unit < 7; ++unit) fragments.push_back(fragment_of(unit, 7, 3));
  EXPECT_EQ(fragments, (std::vector<int>{0, 0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(outer_fault(c, 7), "");
  EXPECT_NE(outer_fault(c, 2).find("--outer-fragments 3"), std::string::npos);
  EXPECT_NE(outer_fault({.every = 4, .delay = 5}, 7).find("--outer-delay 5"), std::string::npos);
}

// Three tensors in two units on each of some ranks.
struct Replica {
  Arena arena;
  std::vector<Tensor> masters, scratch;
  std::vector<int> units{0, 0, 1};
  explicit Replica(DType type) {
    for (const Shape& shape : {Shape{5, 7}, Shape{130}, Shape{3, 50}}) {
      masters.push_back(arena.zeros(type, shape, MemoryClass::weights));
      scratch.push_back(arena.zeros(type, shape, MemoryClass::gradients));
    }
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (const Tensor& t : masters)
      for (int64_t i = 0; i < t.count(); ++i) {
        const auto at = static_cast<size_t>(i);
        all.push_back(t.dtype() == DType::f64 ? t.span<double>()[at] : static_cast<double>(t.span<float>()[at]));
      }
    return all;
  }
  // w -= rate · g(step, rank, element).
  void learn(const std::function<double(int64_t)>& change) {
    int64_t next = 0;
    for (const Tensor& t : masters)
      for (int64_t i = 0; i < t.count(); ++i) {
        const double d = change(next++);
        if (t.dtype() == DType::f64)
          t.span<double>()[static_cast<size_t>(i)] -= d;
        else
          t.span<float>()[static_cast<size_t>(i)] -= static_cast<float>(d);
      }
  }
};

// A whole number over 256, by step, rank and element.
double dyadic(int64_t step, int rank, int64_t i) {
  return static_cast<double>(random_u64({1, hash_name("outer")}, static_cast<uint64_t>((step * 64 + rank) * 4096 + i)) %
                             129) /
             256 -
         0.25;
}

struct Trained {
  std::vector<std::vector<double>> weights;  // of each rank
  std::vector<double> common;
  int64_t sent = 0, staging = 0, state = 0;  // of all ranks
};
Trained train_apart(const OuterConfig& c, int ranks, int64_t steps, DType type,
                    const std::function<double(int64_t, int, int64_t)>& change) {
  Trained all{.weights = std::vector<std::vector<double>>(static_cast<size_t>(ranks)), .common = {}};
  std::mutex lock;
  run_ranks(ranks, {}, [&](std::unique_ptr<Transport> transport) {
    Comm world(std::move(transport));
    Replica r(type);
    Arena kept;
    OuterState state = make_outer_state(c, r.masters, r.units, 2, world.rank(), ranks, kept);
    OuterStep outer{.config = c, .state = state};
    for (int64_t step = 1; step <= steps; ++step) {
      r.learn([&](int64_t i) { return change(step, world.rank(), i); });
      outer_step(outer, step, r.masters, r.scratch, world);
    }
    for (const Tensor& t : r.scratch)
      for (int64_t i = 0; i < t.bytes(); ++i) EXPECT_EQ(static_cast<const uint8_t*>(t.data())[i] & 0x7f, 0);
    const std::lock_guard guard(lock);
    all.weights[static_cast<size_t>(world.rank())] = r.values();
    all.sent += outer.sent_bytes;
    all.staging += outer.staging.peak_total() + outer.pair_staging + world.staging().peak_total();
    all.state += kept.peak_total();
    if (world.rank() == 0) {
      r.masters = state.common;
      all.common = r.values();
    }
  });
  return all;
}

// One step between averages, whole numbers over 256, a power of two of ranks: no sum rounds, so all is what ranks that sum gradients have.
TEST(Outer, AveragingAfterEachStepIsThePlainStepToTheBit) {
  for (const int ranks : {1, 2, 4, 8})
    for (const DType type : {DType::f32, DType::f64}) {
      const Trained apart = train_apart({.every = 1}, ranks, 20, type, dyadic);
      Replica plain(type);
      for (int64_t step = 1; step <= 20; ++step)
        plain.learn([&](int64_t i) {
          double sum = 0;
          for (int r = 0; r < ranks; ++r) sum += dyadic(step, r, i);
          return sum / ranks;
        });
      for (const std::vector<double>& w : apart.weights) EXPECT_EQ(w, plain.values());
      EXPECT_EQ(apart.common, plain.values());
    }
}

// DiLoCo by hand, one element at a time.
TEST(Outer, NesterovsOuterStepByHand) {
  const OuterConfig c{.every = 3, .rate = 0.7, .momentum = 0.9};
  const Trained got = train_apart(c, 3, 12, DType::f64, dyadic);
  for (size_t i = 0; i < got.common.size(); ++i) {
    double common = 0, u = 0;
    std::vector<double> w(3, 0.0);
    for (int64_t step = 1; step <= 12; ++step) {
      for (int r = 0; r < 3; ++r) w[static_cast<size_t>(r)] -= dyadic(step, r, static_cast<int64_t>(i));
      if (step % 3 != 0) continue;
      const double d = ((common - w[0]) + (common - w[1]) + (common - w[2])) / 3;
      u = 0.9 * u + d;
      common -= 0.7 * (d + 0.9 * u);
      w.assign(3, common);
    }
    ASSERT_NEAR(got.common[i], common, 1e-12) << i;
    ASSERT_EQ(got.weights[2][i], got.common[i]) << i;
  }
}

// Without delay and mix a fragment of Streaming DiLoCo is DiLoCo of its tensors, to the bit: the first one in the same turns, the second one half a
// round earlier, as if its first round were shorter.
TEST(Outer, AFragmentWithoutDelayIsDiLoCoInItsTurn) {
  const OuterConfig diloco{.every = 4, .rate = 0.7, .momentum = 0.9};
  OuterConfig streaming = diloco;
  streaming.fragments = 2;
  const Trained got = train_apart(streaming, 3, 14, DType::f64, dyadic),
                first = train_apart(diloco, 3, 14, DType::f64, dyadic),
                second = train_apart(diloco, 3, 16, DType::f64, [](int64_t step, int rank, int64_t i) {
                  return step > 2 ? dyadic(step - 2, rank, i) : 0.0;
                });
  for (size_t i = 0; i < got.common.size(); ++i) {
    const Trained& want = i < 35 + 130 ? first : second;
    ASSERT_EQ(got.common[i], want.common[i]) << i;
    for (size_t r = 0; r < 3; ++r) ASSERT_EQ(got.weights[r][i], want.weights[r][i]) << i;
  }
}

// α and τ by hand: what came counts later, and replicas keep a part of their own.
TEST(Outer, WhatComesLateIsMixedWithWhatAReplicaHasByThen) {
  const OuterConfig c{.every = 4, .rate = 0.5, .momentum = 0, .fragments = 2, .delay = 1, .mix = 0.25};
  const Trained got = train_apart(c, 2, 11, DType::f64, dyadic);
  for (size_t i = 0; i < got.common.size(); ++i) {
    const int64_t offset = i < 35 + 130 ? 0 : 2;  // of the fragment
    double common = 0, late = 0;
    std::vector<double> w(2, 0.0);
    for (int64_t step = 1; step <= 11; ++step) {
      for (int r = 0; r < 2; ++r) w[static_cast<size_t>(r)] -= dyadic(step, r, static_cast<int64_t>(i));
      if (step > 1 && (step - 1 + offset) % 4 == 0) {
        common -= 0.5 * late;
        for (double& own : w) own = 0.75 * common + 0.25 * own;
      }
      if ((step + offset) % 4 == 0) late = ((common - w[0]) + (common - w[1])) / 2;
    }
    ASSERT_NEAR(got.common[i], common, 1e-12) << i;
    for (size_t r = 0; r < 2; ++r) ASSERT_NEAR(got.weights[r][i], w[r], 1e-12) << i;
  }
}

// CO2 by hand: a round's work counts when the next round ends, and all begin each round from the model in common.
TEST(Outer, CountingOneRoundLateByHand) {
  const OuterConfig c{.every = 3, .rate = 1, .momentum = 0.5, .nesterov = false, .delay = 3};
  const Trained got = train_apart(c, 3, 14, DType::f64, dyadic);
  for (size_t i = 0; i < got.common.size(); ++i) {
    double common = 0, u = 0, late = 0;
    std::vector<double> w(3, 0.0);
    for (int64_t step = 1; step <= 14; ++step) {
      for (int r = 0; r < 3; ++r) w[static_cast<size_t>(r)] -= dyadic(step, r, static_cast<int64_t>(i));
      if (step % 3 != 0) continue;
      const double now = ((common - w[0]) + (common - w[1]) + (common - w[2])) / 3;
      u = 0.5 * u + late;
      common -= u;
      w.assign(3, common);
      late = now;
    }
    ASSERT_NEAR(got.common[i], common, 1e-12) << i;
    for (size_t r = 0; r < 3; ++r) ASSERT_NEAR(got.weights[r][i], w[r], 1e-12) << i;
  }
  EXPECT_EQ(last_step_that_counts(c, 14), 9);
  EXPECT_EQ(last_step_that_counts(c, 2), 0);
}

TEST(Outer, PairsAreDrawnAnewAndEachRankIsInOne) {
  const OuterConfig c{.every = 1, .pairs = true, .seed = 3, .away = {{2, 5, 9}}};
  std::map<std::pair<int, int>, int> met;
  for (int64_t step = 1; step <= 200; ++step)
    for (const int ranks : {1, 2, 5, 8}) {
      const std::vector<int> partners = partners_at(c, 0, ranks, step);
      int alone = 0;
      for (int r = 0; r < ranks; ++r) {
        const int other = partners[static_cast<size_t>(r)];
        ASSERT_EQ(partners[static_cast<size_t>(other)], r);
        alone += other == r;
        if (ranks == 8 && r < other) ++met[{r, other}];
      }
      const bool away = ranks > 2 && step >= 5 && step <= 9;
      EXPECT_EQ(alone, (ranks - away) % 2 + away) << step << " " << ranks;
      EXPECT_EQ(partners, partners_at(c, 0, ranks, step));
    }
  EXPECT_EQ(met.size(), 28u);
  for (const auto& [pair, times] : met) {
    EXPECT_GT(times, 8) << pair.first << " " << pair.second;  // 200 / 7 each, if fair
    EXPECT_LT(times, 60) << pair.first << " " << pair.second;
  }
}

// NoLoCo as published, with both of its terms: the mean of the pair's Δ, and the pull of its φ on each other.
TEST(Outer, PairsByHand) {
  const OuterConfig c{.every = 2, .rate = 0.7, .momentum = 0.5, .nesterov = false, .pairs = true, .seed = 4};
  for (const int ranks : {1, 2, 4, 5}) {
    const Trained got = train_apart(c, ranks, 12, DType::f64, dyadic);
    int64_t sent = 0;
    const std::vector<OuterFragment> whole{{Shape{5, 7}, Shape{130}, Shape{3, 50}}};
    for (int64_t step = 2; step <= 12; step += 2) sent += outer_fragment_bytes(c, whole[0], 0, ranks, step, DType::f64);
    EXPECT_EQ(got.sent, sent);
    EXPECT_EQ(sent, ranks / 2 * 2 * 6 * (35 + 130 + 150) * 8);
    EXPECT_EQ(got.state, outer_state_bytes(c, whole, ranks, DType::f64));
    if (ranks != 5) { EXPECT_EQ(got.staging, outer_staging_bytes(c, whole, ranks, DType::f64)); }
    const auto n = static_cast<size_t>(ranks);
    for (size_t i = 0; i < got.common.size(); ++i) {
      std::vector<double> common(n), m(n), w(n);
      for (int64_t step = 1; step <= 12; ++step) {
        for (int r = 0; r < ranks; ++r) w[static_cast<size_t>(r)] -= dyadic(step, r, static_cast<int64_t>(i));
        if (step % 2 != 0) continue;
        const std::vector<int> partners = partners_at(c, 0, ranks, step);
        std::vector<double> next = common;
        for (size_t r = 0; r < n; ++r) {
          const auto other = static_cast<size_t>(partners[r]);
          const double d = ((w[r] - common[r]) + (w[other] - common[other])) / 2;
          m[r] = 0.5 * m[r] + 0.7 * d + 0.7 * ((common[r] + common[other]) / 2 - common[r]);
          next[r] = common[r] + m[r];
        }
        common = next, w = next;
      }
      for (size_t r = 0; r < n; ++r) ASSERT_NEAR(got.weights[r][i], w[r], 1e-12) << i;
    }
  }
}

// Pairs of equal φ and u stay equal: to the bit, if both learn the same.
TEST(Outer, PairsOfEqualRanksStayEqual) {
  const OuterConfig c{.every = 3, .rate = 0.7, .momentum = 0.5, .nesterov = false, .pairs = true, .fragments = 2};
  const auto alike = [](int64_t step, int, int64_t i) { return 0.1 * dyadic(step, 0, i); };
  const Trained got = train_apart(c, 4, 20, DType::f32, alike);
  for (const std::vector<double>& w : got.weights) EXPECT_EQ(w, got.weights[0]);
}

// What a rank that is cut off does is lost, whatever it was; the others are as they would be without it.
TEST(Outer, WhoVanishesAndReturnsLosesItsOwnWorkAlone) {
  const std::vector<OuterAbsence> away{{1, 3, 8}, {3, 5, 5}, {1, 13, 13}};
  for (OuterConfig c : {OuterConfig{.every = 2, .rate = 0.7, .momentum = 0.9}, OuterConfig{.every = 1},
                        OuterConfig{.every = 4, .rate = 0.7, .momentum = 0.9, .fragments = 2, .delay = 1, .mix = 0.5},
                        OuterConfig{.every = 2, .rate = 0.7, .codec = OuterCodec::int8},
                        OuterConfig{.every = 2, .rate = 0.7, .codec = OuterCodec::power_sgd, .codec_rank = 1},
                        OuterConfig{.every = 3, .momentum = 0.5, .nesterov = false, .delay = 3}}) {
    c.away = away;
    SCOPED_TRACE(c.every);
    const auto wild = [&](int64_t step, int rank, int64_t i) {
      return is_away(c, rank, step) ? 1e3 * static_cast<double>(1 + i) : dyadic(step, rank, i);
    };
    const Trained lost = train_apart(c, 4, 20, DType::f64, wild), quiet = train_apart(c, 4, 20, DType::f64, dyadic);
    EXPECT_EQ(lost.common, quiet.common);
    EXPECT_EQ(lost.weights, quiet.weights);
    for (const double w : lost.common) ASSERT_LT(std::abs(w), 100);
  }
}

// The same by hand: an average is over those who are there, and who returns begins from what they have.
TEST(Outer, AveragesAreOverThoseWhoAreThere) {
  OuterConfig c{.every = 2, .rate = 0.7, .momentum = 0.9};
  c.away = {{1, 3, 7}};
  const Trained got = train_apart(c, 3, 12, DType::f64, dyadic);
  for (size_t i = 0; i < got.common.size(); ++i) {
    double common = 0, u = 0;
    std::vector<double> w(3, 0.0);
    for (int64_t step = 1; step <= 12; ++step) {
      const bool away = step >= 3 && step <= 7;
      for (int r = 0; r < 3; ++r) w[static_cast<size_t>(r)] -= dyadic(step, r, static_cast<int64_t>(i));
      if (step % 2 == 0) {
        double d = (common - w[0]) + (common - w[2]);
        d = away ? d / 2 : (d + (common - w[1])) / 3;
        u = 0.9 * u + d;
        common -= 0.7 * (d + 0.9 * u);
        w[0] = w[2] = common;
        if (!away) w[1] = common;
      }
      if (step == 7) w[1] = common;
    }
    ASSERT_NEAR(got.common[i], common, 1e-12) << i;
    for (size_t r = 0; r < 3; ++r) ASSERT_NEAR(got.weights[r][i], w[r], 1e-12) << i;
  }
}

// Codes: bytes are those of the closed form, error feedback keeps the average from drifting, and all ranks have the same bits.
TEST(Outer, CodesTravelInTheirBytesAndWhatTheyLeaveOutComesLater) {
  const std::vector<OuterFragment> fragments{{Shape{5, 7}, Shape{130}}, {Shape{3, 50}}};
  for (const OuterCodec codec :
       {OuterCodec::none, OuterCodec::int8, OuterCodec::int4, OuterCodec::sign, OuterCodec::power_sgd})
    for (const int ranks : {1, 2, 3, 4}) {
      SCOPED_TRACE(std::string(kOuterCodecNames[static_cast<size_t>(codec)]) + " " + std::to_string(ranks));
      const OuterConfig c{.every = 2, .rate = 0.7, .momentum = 0.9, .fragments = 2, .codec = codec, .codec_rank = 2};
      const Trained got = train_apart(c, ranks, 40, DType::f32, dyadic);
      int64_t sent = 0;
      for (int64_t step = 1; step <= 40; ++step)
        for (int f = 0; f < 2; ++f)
          if (sends_at(c, f, step))
            sent += outer_fragment_bytes(c, fragments[static_cast<size_t>(f)], f, ranks, step, DType::f32);
      EXPECT_EQ(got.sent, sent);
      EXPECT_EQ(got.state, outer_state_bytes(c, fragments, ranks, DType::f32));
      EXPECT_EQ(got.staging, outer_staging_bytes(c, fragments, ranks, DType::f32));
      const Trained exact =
          train_apart({.every = 2, .rate = 0.7, .momentum = 0.9, .fragments = 2}, ranks, 40, DType::f64, dyadic);
      double worst = 0;
      for (size_t i = 0; i < got.common.size(); ++i) worst = std::max(worst, std::abs(got.common[i] - exact.common[i]));
      if (codec == OuterCodec::none || codec == OuterCodec::int8 || codec == OuterCodec::int4) {
        EXPECT_LE(worst, codec == OuterCodec::none ? 1e-5 : codec == OuterCodec::int8 ? 0.02 : 0.4);
      }
      for (const std::vector<double>& w : got.weights)
        for (size_t i = 0; i < 35 + 130; ++i) ASSERT_EQ(w[i], got.common[i]) << i;
    }
}

}  // namespace
}  // namespace tern
