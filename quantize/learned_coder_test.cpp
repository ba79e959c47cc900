// Codes by learned tables: rows become the numbers of their codes, tables follow the numbers, nothing depends on threads.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "base/threads_testing.h"
#include "kernels/cpu/coded_matmul.h"
#include "kernels/kernel_testing.h"
#include "quantize/gptq.h"
#include "quantize/learned_tables.h"

namespace tern {
namespace {

constexpr WeightType kLearned[] = {WeightType::lc4, WeightType::lc3, WeightType::lc2};

std::vector<float> drawn(uint64_t stream, int64_t count) {
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(0.05 * random_normal({test_seed(), stream}, i));
  return x;
}
std::vector<float> decoded(WeightType type, std::span<const std::byte> bytes, std::span<const int8_t> tables, int64_t n,
                           int64_t k) {
  std::vector<int32_t> ids(static_cast<size_t>(n));
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<float> numbers(static_cast<size_t>(n * k));
  gather_coded_rows<float>({type, reinterpret_cast<const uint8_t*>(bytes.data()), n, 0, tables.data()}, k, ids,
                           numbers);
  return numbers;
}
double squares(std::span<const float> x, std::span<const float> y) {
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += std::pow(static_cast<double>(x[i]) - static_cast<double>(y[i]), 2);
  return sum;
}
struct Coded {
  std::vector<int8_t> tables;
  std::vector<std::byte> bytes;
  std::vector<float> numbers;
};
Coded code(WeightType type, std::span<const float> w, int64_t n, int64_t k) {
  const std::vector<float> importance(static_cast<size_t>(k), 1.0f);
  Coded c{learn_tables(type, w, n, k, importance), {}, {w.begin(), w.end()}};
  c.bytes = gptq_rows(type, [&] { return learned_coder(type, c.tables); }, c.numbers, n, k, {});
  return c;
}

// The Gaussian rate bound is 4^-bits of the squares; uniform steps with an offset leave .0121, .045, .16 in groups of 64.
TEST(LearnedCoder, RowsBecomeTheNumbersOfTheirCodesWhichAreNear) {
  const int64_t n = 40, k = 288;
  const std::vector<float> w = drawn(1, n * k), none(w.size());
  for (const auto& [type, most] :
       {std::pair{WeightType::lc4, 0.0085}, {WeightType::lc3, 0.03}, {WeightType::lc2, 0.105}}) {
    const Coded c = code(type, w, n, k);
    EXPECT_EQ(static_cast<int64_t>(c.bytes.size()), stored_bytes(type, n, k));
    EXPECT_EQ(decoded(type, c.bytes, c.tables, n, k), c.numbers) << name_of(type);
    const double error = squares(w, c.numbers) / squares(w, none);
    std::printf("%s: %.5f of the squares\n", std::string(name_of(type)).c_str(), error);
    EXPECT_LT(error, most) << name_of(type);
  }
}

// Squares of small numbers vanish, and f16 knows none below 6e-8: neither may be seen.
TEST(LearnedCoder, SmallAndLargeRowsKeepWhatRowsOfUsualSizeKeep) {
  const int64_t n = 24, k = 192;
  const std::vector<float> usual = drawn(5, n * k), none(usual.size());
  for (const WeightType type : kLearned)
    for (const double size : {1e-33, 1e-20, 1e-6, 1e7, 1e30}) {
      std::vector<float> w = usual;
      for (float& x : w) x = static_cast<float>(size * static_cast<double>(x));
      const Coded c = code(type, w, n, k), as_usual = code(type, usual, n, k);
      EXPECT_EQ(decoded(type, c.bytes, c.tables, n, k), c.numbers);
      EXPECT_LT(squares(w, c.numbers) / squares(w, none),
                1.02 * squares(usual, as_usual.numbers) / squares(usual, none))
          << name_of(type) << " of " << size;
    }
}

// One row among others that are larger by far, as a unit that training has left behind.
TEST(LearnedCoder, ASmallRowBesideUsualOnesIsNotZero) {
  const int64_t n = 24, k = 192;
  std::vector<float> w = drawn(6, n * k);
  for (int64_t i = 0; i < k; ++i) w[static_cast<size_t>(7 * k + i)] *= 1e-7f;
  for (const WeightType type : kLearned) {
    const Coded c = code(type, w, n, k);
    const std::span<const float> row = std::span(w).subspan(7 * k, k), got = std::span(c.numbers).subspan(7 * k, k);
    const std::vector<float> none(row.size());
    EXPECT_LT(squares(row, got) / squares(row, none), 0.13) << name_of(type);
  }
}

// With the tables a matrix was coded by: its numbers come out as they went in, also where errors are fed back.
TEST(LearnedCoder, CodingDecodedNumbersAgainIsTheIdentity) {
  const int64_t n = 40, k = 160;
  const std::vector<double> factor = error_factor(
      [&] {
        const std::vector<float> x = drawn(8, 400 * k);
        std::vector<double> moments(static_cast<size_t>(k * k));
        for (int64_t t = 0; t < 400; ++t)
          for (int64_t i = 0; i < k; ++i)
            for (int64_t j = 0; j < k; ++j)
              moments[static_cast<size_t>(i * k + j)] += static_cast<double>(x[static_cast<size_t>(t * k + i)]) *
                                                         static_cast<double>(x[static_cast<size_t>(t * k + j)]);
        return moments;
      }(),
      k);
  for (const WeightType type : kLearned)
    for (const bool fed_back : {false, true}) {
      const auto f = fed_back ? std::span<const double>(factor) : std::span<const double>();
      const std::vector<float> w = drawn(7, n * k), importance = importance_of(f, k);
      const std::vector<int8_t> tables = learn_tables(type, w, n, k, importance);
      const auto again = [&](std::vector<float> rows) {
        gptq_rows(
            type, [&] { return learned_coder(type, tables); }, rows, n, k, f);
        return rows;
      };
      const std::vector<float> once = again(w);
      EXPECT_NE(once, w);
      EXPECT_EQ(again(once), once) << name_of(type) << (fed_back ? ", fed back" : "");
    }
}

TEST(LearnedCoder, TablesAreThoseOfTheNumbersAndReachTheirEnds) {
  const int64_t n = 64, k = 128;
  std::vector<float> w = drawn(3, n * k);
  const std::vector<float> importance(static_cast<size_t>(k), 1.0f);
  for (const WeightType type : kLearned) {
    const std::vector<int8_t> tables = learn_tables(type, w, n, k, importance);
    const auto levels = static_cast<size_t>(row_of(type).levels);
    for (size_t t = 0; t < 4; ++t) {
      const auto table = std::span(tables).subspan(t * levels, levels);
      EXPECT_TRUE(std::ranges::is_sorted(table)) << name_of(type);
      EXPECT_EQ(std::max(-table.front(), static_cast<int>(table.back())), 127) << name_of(type);
    }
  }
}

TEST(LearnedCoder, TheNearestCodeOfEveryTableIsFound) {
  const std::vector<int8_t> table = {-127, -40, -39, 0, 1, 30, 90, 91};
  const NearestCodes codes = nearest_codes(table);
  for (float y = -140; y < 140; y += 0.13f) {
    size_t best = 0;
    for (size_t c = 1; c < table.size(); ++c)
      if (std::fabs(static_cast<float>(table[c]) - y) < std::fabs(static_cast<float>(table[best]) - y)) best = c;
    EXPECT_EQ(codes[static_cast<size_t>(place_of(y))], best) << y;
  }
}

TEST(LearnedCoder, ZeroRowsAndThreadsChangeNothing) {
  const int64_t n = 33, k = 160;
  std::vector<float> w = drawn(4, n * k);
  std::fill(w.begin(), w.begin() + k, 0.0f);
  std::fill(w.begin() + 2 * k, w.begin() + 2 * k + 32, 0.0f);
  for (const WeightType type : kLearned) {
    Coded one, three;
    with_threads(1, [&] { one = code(type, w, n, k); });
    with_threads(3, [&] { three = code(type, w, n, k); });
    EXPECT_EQ(one.tables, three.tables);
    EXPECT_EQ(one.bytes, three.bytes);
    for (int64_t i = 0; i < k; ++i) EXPECT_EQ(one.numbers[static_cast<size_t>(i)], 0) << name_of(type);
  }
}

}  // namespace
}  // namespace tern
