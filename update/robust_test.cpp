// Aggregating over ranks: the rules of aggregate.h on the whole vectors, what attackers send, local momentum, bytes.
#include "update/robust_step.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"
#include "comm/ranks_testing.h"
#include "spec/collective_bytes.h"
#include "update/aggregate.h"

namespace tern {
namespace {

using Row = std::vector<double>;
constexpr size_t kFirst = 15, kSecond = 3'001;  // elements of two gradients: parts end anywhere

Row sent_by(int worker, size_t second = kSecond) {
  Row row;
  for (uint64_t i = 0; i < kFirst + second; ++i)
    row.push_back(1 + random_normal({1, static_cast<uint64_t>(worker)}, i));
  return row;
}

// What the ranks' gradients become, each rank's as one row; all must be the same.
struct Aggregated {
  Row row;
  std::vector<LinkBytes> links;
};
template <class T = double>
Aggregated aggregated(const RobustConfig& config, const std::vector<Row>& sent, int64_t steps = 1) {
  const int ranks = static_cast<int>(sent.size());
  const size_t second = sent[0].size() - kFirst;
  std::vector<Row> all(sent.size());
  std::vector<LinkBytes> links(sent.size());
  with_comms(ranks, {.baton = true}, [&](Comm& comm) {
    const auto rank = static_cast<size_t>(comm.rank());
    Arena arena;
    const std::vector<Tensor> gradients{
        arena.allocate(DTypeOf<T>::value, {3, 5}, MemoryClass::gradients),
        arena.allocate(DTypeOf<T>::value, {static_cast<int64_t>(second)}, MemoryClass::gradients)};
    RobustState state = make_robust_state(config, gradients, comm.rank(), ranks, arena);
    RobustStep step{.config = config, .state = state};
    for (int64_t number = 1; number <= steps; ++number) {
      for (size_t i = 0; i < kFirst; ++i) gradients[0].span<T>()[i] = static_cast<T>(sent[rank][i]);
      for (size_t i = 0; i < second; ++i) gradients[1].span<T>()[i] = static_cast<T>(sent[rank][kFirst + i]);
      aggregate_gradients(step, gradients, number, comm);
    }
    for (const Tensor& g : gradients)
      for (const T x : g.span<T>()) all[rank].push_back(static_cast<double>(x));
    links[rank] = comm.bytes();
    std::vector<int64_t> bytes{arena.current()[static_cast<size_t>(MemoryClass::optimizer)], step.staging.peak_total()};
    comm.all_reduce(bytes, Combine::sum);
    EXPECT_EQ(bytes[0], robust_state_bytes(config, ranks, std::ssize(sent[0]), DTypeOf<T>::value));
    EXPECT_EQ(bytes[1], robust_staging_bytes(config, ranks, std::ssize(sent[0]), DTypeOf<T>::value));
  });
  for (size_t r = 1; r < all.size(); ++r)
    for (size_t i = 0; i < all[r].size(); ++i)
      if (std::bit_cast<uint64_t>(all[r][i]) != std::bit_cast<uint64_t>(all[0][i])) {
        ADD_FAILURE() << "rank " << r << " differs at " << i;
        break;
      }
  return {all[0], links};
}

std::vector<Row> sent_by_all(int workers) {
  std::vector<Row> sent;
  for (int w = 0; w < workers; ++w) sent.push_back(sent_by(w));
  return sent;
}

// The rules on whole vectors, one after the other.
Row whole(const RobustConfig& c, const std::vector<Row>& sent, int64_t step) {
  std::vector<Row> mixed = sent;
  if (c.mixing == Mixing::nearest) mixed = nearest_neighbour_mixing(views_of(sent), c.byzantine);
  if (c.mixing == Mixing::buckets) mixed = bucketing(views_of(sent), kBucketSize, c.seed, static_cast<uint64_t>(step));
  const Vectors<double> x = views_of(mixed);
  const double workers = static_cast<double>(sent.size());
  const Row zero(sent[0].size());
  switch (c.aggregator) {
    case Aggregator::mean:
      return mean_of(x);
    case Aggregator::krum:
      return krum(x, c.byzantine);
    case Aggregator::median:
      return coordinate_median(x);
    case Aggregator::trimmed_mean:
      return trimmed_mean(x, c.byzantine);
    case Aggregator::geometric_median:
      return geometric_median(x, {.steps = kMedianSteps, .smooth = 1e-9 / workers});
    case Aggregator::centered_clipping:
      return centred_clipping(x, std::span<const double>(zero), {c.clip_radius / workers, kClippingSteps});
  }
  return {};
}

TEST(Robust, RanksThatShareTheVectorGetWhatOneWouldOfTheWhole) {
  const std::vector<Row> sent = sent_by_all(9);
  for (int rule = 0; rule <= static_cast<int>(Aggregator::centered_clipping); ++rule)
    for (const Mixing mixing : {Mixing::none, Mixing::nearest, Mixing::buckets}) {
      RobustConfig c{.aggregator = static_cast<Aggregator>(rule), .byzantine = 2, .mixing = mixing, .clip_radius = 300};
      if (c.aggregator == Aggregator::mean) c.byzantine = 0, c.mixing = Mixing::none;
      if (mixing == Mixing::buckets) c.byzantine = c.aggregator == Aggregator::mean ? 0 : 1;
      SCOPED_TRACE(std::string(kAggregatorNames[rule]) + " " + std::string(kMixingNames[static_cast<size_t>(mixing)]));
      ASSERT_EQ(robust_fault(c, 9), "");
      const Aggregated got = aggregated(c, sent);
      const Row want = whole(c, sent, 1);
      double apart = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i)
        apart = std::max(apart, std::abs(got.row[i] - 9 * want[i])), size = std::max(size, std::abs(9 * want[i]));
      EXPECT_LE(apart, 1e-12 * size);
      const int64_t values = 8 * robust_values(c, 9) * static_cast<int64_t>(sizeof(double));
      for (int r = 0; r < 9; ++r) {
        LinkBytes vector = all_reduce_bytes(kFirst + kSecond, 8, r, 9);
        vector += {values, values};
        EXPECT_EQ(got.links[static_cast<size_t>(r)], vector) << r;
      }
    }
}

// Parts of several blocks, the last of them short.
TEST(Robust, SoDoLongParts) {
  std::vector<Row> sent;
  for (int w = 0; w < 3; ++w) sent.push_back(sent_by(w, 230'000));
  for (const RobustConfig& c : {RobustConfig{.aggregator = Aggregator::geometric_median, .byzantine = 1},
                                RobustConfig{.aggregator = Aggregator::krum, .mixing = Mixing::nearest}}) {
    const Row got = aggregated(c, sent).row, want = whole(c, sent, 1);
    double apart = 0;
    for (size_t i = 0; i < want.size(); ++i) apart = std::max(apart, std::abs(got[i] - 3 * want[i]));
    EXPECT_LE(apart, 1e-11);
  }
}

TEST(Robust, TheMeanHasTheBitsOfThePlainSum) {
  for (const int ranks : {2, 3, 5, 8}) {
    const std::vector<Row> sent = sent_by_all(ranks);
    Row want;
    with_comms(ranks, {.baton = true}, [&](Comm& comm) {
      Row own = sent[static_cast<size_t>(comm.rank())];
      std::vector<float> narrow(own.begin(), own.end());
      const Tensor t = Tensor::borrow(DType::f32, {std::ssize(narrow)}, narrow.data());
      comm.all_reduce_sum({&t, 1});
      if (comm.rank() == 0) want.assign(narrow.begin(), narrow.end());
    });
    EXPECT_EQ(aggregated<float>({}, sent).row, want) << ranks;
  }
}

TEST(Robust, EqualVectorsComeBack) {
  const std::vector<Row> sent(7, sent_by(3));
  for (int rule = 0; rule <= static_cast<int>(Aggregator::centered_clipping); ++rule) {
    const RobustConfig c{
        .aggregator = static_cast<Aggregator>(rule), .byzantine = rule == 0 ? 0 : 2, .clip_radius = 1e9};
    const Row got = aggregated(c, sent).row;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], 7 * sent[0][i], 1e-12) << kAggregatorNames[rule];
  }
}

TEST(Robust, AttackersSendWhatIsSaidAndAreOutvoted) {
  EXPECT_NEAR(alie_deviations(8, 3), 0.2533, 1e-4);
  std::vector<Row> sent = sent_by_all(8);
  const Row honest = [&] {
    RobustConfig c{.aggregator = Aggregator::median, .byzantine = 0};
    return aggregated(c, {sent.begin(), sent.begin() + 5}).row;
  }();
  for (const Attack attack :
       {Attack::garbage, Attack::not_a_number, Attack::alie, Attack::inner_product, Attack::bit_flip}) {
    SCOPED_TRACE(kAttackNames[static_cast<size_t>(attack)]);
    const RobustConfig mean{.attack = attack, .attackers = 3};
    const Row got = aggregated(mean, sent).row;
    for (size_t i = 0; i < 40; ++i) {
      double sum = 0, squares = 0, own = 0;
      for (size_t w = 0; w < 5; ++w) sum += sent[w][i];
      for (size_t w = 0; w < 5; ++w) squares += std::pow(sent[w][i] - sum / 5, 2);
      for (size_t w = 5; w < 8; ++w) own += sent[w][i];
      switch (attack) {
        case Attack::alie:
          EXPECT_NEAR(got[i], sum + 3 * (sum / 5 - alie_deviations(8, 3) * std::sqrt(squares / 5)), 1e-12);
          break;
        case Attack::inner_product:
          EXPECT_NEAR(got[i], sum - 3 * 0.1 * sum / 5, 1e-12);
          break;
        case Attack::bit_flip:
          EXPECT_NEAR(got[i], sum - 10 * own, 1e-12);
          break;
        case Attack::not_a_number:
          EXPECT_TRUE(std::isnan(got[i]));
          break;
        default:
          EXPECT_LT(std::abs(got[i] - sum), 12);
      }
    }
    // Eight workers' median lies among the five honest values.
    const Row outvoted =
        aggregated({.aggregator = Aggregator::median, .byzantine = 3, .attack = attack, .attackers = 3}, sent).row;
    for (size_t i = 0; i < outvoted.size(); ++i) {
      double low = INFINITY, high = -INFINITY;
      for (size_t w = 0; w < 5; ++w) low = std::min(low, sent[w][i]), high = std::max(high, sent[w][i]);
      ASSERT_TRUE(outvoted[i] >= 8 * low && outvoted[i] <= 8 * high) << i;
    }
  }
  EXPECT_EQ(honest.size(), kFirst + kSecond);
}

TEST(Robust, LocalMomentumIsAnAverageThatANumberOfNoUseDoesNotEnter) {
  std::vector<Row> sent = sent_by_all(3);
  const RobustConfig c{.local_momentum = 0.75};
  const Row once = aggregated(c, sent).row, plain = aggregated({}, sent).row;
  EXPECT_EQ(once, plain) << "u = g at first";
  const Row many = aggregated(c, sent, 6).row;
  for (size_t i = 0; i < many.size(); ++i)
    ASSERT_NEAR(many[i], plain[i], 1e-12) << "equal gradients average to themselves";

  Arena arena;
  const std::vector<Tensor> g{arena.zeros(DType::f64, {2}, MemoryClass::gradients)};
  RobustState state = make_robust_state(c, g, 0, 1, arena);
  RobustStep step{.config = c, .state = state};
  const std::unique_ptr<Comm> solo = make_solo_comm();
  const auto send = [&](double x, int64_t number) {
    g[0].span<double>()[0] = x, g[0].span<double>()[1] = 1;
    aggregate_gradients(step, g, number, *solo);
    return g[0].span<double>()[0];
  };
  EXPECT_EQ(send(4, 1), 4);
  EXPECT_EQ(send(8, 2), 0.75 * 4 + 0.25 * 8);
  EXPECT_TRUE(std::isnan(send(std::nan(""), 3))) << "what is wrong is told, not hidden";
  EXPECT_EQ(send(5, 4), 0.75 * 5 + 0.25 * 5);
}

TEST(Robust, DomainsAreTold) {
  const auto fault = [](Aggregator a, int f, int n, Mixing m = Mixing::none) {
    return robust_fault({.aggregator = a, .byzantine = f, .mixing = m}, n);
  };
  EXPECT_EQ(fault(Aggregator::mean, 0, 2), "");
  EXPECT_NE(fault(Aggregator::mean, 1, 9).find("--byzantine 1"), std::string::npos);
  EXPECT_EQ(fault(Aggregator::krum, 2, 7), "");
  EXPECT_NE(fault(Aggregator::krum, 2, 6).find("--byzantine 1 or more --ranks"), std::string::npos);
  EXPECT_EQ(fault(Aggregator::median, 3, 7), "");
  EXPECT_NE(fault(Aggregator::median, 3, 6).find("at least 7"), std::string::npos);
  EXPECT_NE(fault(Aggregator::median, 2, 8, Mixing::buckets).find("4 buckets of 8 ranks"), std::string::npos);
  EXPECT_EQ(fault(Aggregator::median, 1, 8, Mixing::buckets), "");
}

}  // namespace
}  // namespace tern
