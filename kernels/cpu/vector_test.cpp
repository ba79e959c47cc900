#include "kernels/cpu/vector.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/bug.h"
#include "kernels/kernel_testing.h"
#include "kernels/ref/vector_ref.h"

namespace tern {
namespace {

constexpr int64_t kCounts[] = {1, 7, 15, 16, 17, 31, 33, 64, 1000, 2100};
template <class T>
constexpr Tolerance kOneRounding = {.absolute = 8 * kRoundoff<float>, .relative = kRoundoff<T>};

// Every class of value: the rounding ties, subnormals, the largest, infinities, NaN.
std::vector<float> awkward_floats() {
  auto x = random_values<float>("x", 500, 100);
  const float inf = std::numeric_limits<float>::infinity();
  for (const float v :
       {0.0f,     -0.0f,    1.0f,     1.00390625f, 1.01171875f,    1.00048828125f, 1.00146484375f, 65504.0f, 65519.9f,
        65520.0f, 70000.0f, 6e-8f,    2.9e-8f,     2.98023224e-8f, 6.1e-5f,        5.9e-5f,        1e-40f,   9e-41f,
        1e-45f,   3.4e38f,  3.39e38f, inf})
    x.push_back(v), x.push_back(-v);
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  x.push_back(std::bit_cast<float>(0x7f800001u));  // a signalling one
  return x;
}

TEST(Convert, GivesTheBitsOfTheScalarConversions) {
  for_each_isa([] {
    const auto x = awkward_floats();
    const size_t n = x.size();
    Guarded<bf16> b(n);
    Guarded<f16> h(n);
    Guarded<double> d(n);
    Guarded<float> from_b(n), from_h(n), from_d(n);
    convert<float, bf16>(x, b.span());
    convert<float, f16>(x, h.span());
    convert<float, double>(x, d.span());
    convert<bf16, float>(b.values(), from_b.span());
    convert<f16, float>(h.values(), from_h.span());
    convert<double, float>(d.values(), from_d.span());
    for (size_t i = 0; i < n; ++i) {
      EXPECT_EQ(b.values()[i].bits, to_bf16(x[i]).bits) << x[i];
      EXPECT_EQ(h.values()[i].bits, to_f16(x[i]).bits) << x[i];
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(d.values()[i]) && std::isnan(from_b.values()[i]) && std::isnan(from_h.values()[i]));
        continue;
      }
      EXPECT_EQ(d.values()[i], static_cast<double>(x[i]));
      EXPECT_EQ(from_b.values()[i], to_float(b.values()[i]));
      EXPECT_EQ(from_h.values()[i], to_float(h.values()[i]));
      EXPECT_EQ(from_d.values()[i], x[i]);
    }
    EXPECT_TRUE(b.guards_intact() && h.guards_intact() && d.guards_intact() && from_b.guards_intact() &&
                from_h.guards_intact());
    for (const int64_t count : kCounts) {
      Guarded<bf16> part(static_cast<size_t>(count));
      convert<float, bf16>(std::span<const float>(x).subspan(3).first(std::min<size_t>(n - 3, part.span().size())),
                           part.span().first(std::min<size_t>(n - 3, part.span().size())));
      EXPECT_TRUE(part.guards_intact());
    }
  });
}

template <class T>
void element_wise_matches(int64_t count) {
  SCOPED_TRACE(count);
  const auto x = random_values<T>("x", count), y = random_values<T>("y", count),
             rows = random_values<T>("rows", 5 * count);
  const auto db = random_values<float>("db", count);
  auto want = doubles(y), biased = doubles(rows), want_db = doubles(db);
  add_ref(doubles(x), want);
  add_bias_ref(doubles(x), biased);
  bias_backward_ref(doubles(rows), want_db);
  Guarded<T> got(y), got_biased(rows);
  Guarded<float> got_db(db);
  add<T>(x, got.span());
  add_bias<T>(x, got_biased.span());
  bias_backward<T>(rows, got_db.span());
  EXPECT_TRUE(is_close(got, want, kOneRounding<T>));
  EXPECT_TRUE(is_close(got_biased, biased, kOneRounding<T>));
  EXPECT_TRUE(is_close(got_db, want_db, {.absolute = 5 * 20 * kRoundoff<float>}));
}

// To the bit the loop that rounds the product, then the sum; what lies beside the columns stays.
template <class T>
void scaled_columns_match(int64_t rows, int64_t width, int64_t column, int64_t stride) {
  SCOPED_TRACE(width);
  constexpr float kFactor = 0.7f;
  const auto x = random_values<T>("x", rows * width), y = random_values<T>("y", rows * stride);
  const auto wide_x = doubles(x), wide_y = doubles(y);
  auto want = wide_y;
  add_scaled_columns_ref(kFactor, wide_x, width, want, stride, column);
  Guarded<T> got(y);
  add_scaled_columns<T>(kFactor, x, width, got.span(), stride, column);
  EXPECT_TRUE(is_close(got, want, kOneRounding<T>));
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t c = 0; c < stride; ++c) {
      const auto at = static_cast<size_t>(row * stride + c);
      if (c < column || c >= column + width) {
        ASSERT_EQ(std::memcmp(&got.values()[at], &y[at], sizeof(T)), 0);
        continue;
      }
      const volatile float more = kFactor * static_cast<float>(wide_x[static_cast<size_t>(row * width + c - column)]);
      const auto sum = static_cast<float>(wide_y[at]) + more;
      if constexpr (std::is_same_v<T, bf16>)
        ASSERT_EQ(got.values()[at].bits, to_bf16(sum).bits);
      else
        ASSERT_EQ(got.values()[at], sum);
    }
}

TEST(Vector, ScaledColumnsAreAddedToTheBitOfTheLoop) {
  for_each_isa([] {
    for (const int64_t width : kCounts) {
      scaled_columns_match<float>(5, width, 3, width + 5);
      scaled_columns_match<bf16>(5, width, 0, width);
      scaled_columns_match<bf16>(5, width, 3, width + 5);
    }
  });
  with_threads(3, [] { scaled_columns_match<bf16>(131, 1000, 3, 1005); });
  std::vector<float> x(6), y(8);
  EXPECT_THROW(add_scaled_columns<float>(1, x, 3, y, 4, 2), Bug);
  EXPECT_THROW(add_scaled_columns<float>(1, x, 2, y, 4, 1), Bug);  // three rows, two rows
  add_scaled_columns<float>(1, {}, 3, y, 4, 1);
  EXPECT_EQ(y, std::vector<float>(8));
}

template <class T>
void gathering_matches(int64_t width) {
  SCOPED_TRACE(width);
  constexpr int64_t kTable = 9;
  const std::vector<int32_t> ids = {3, 0, 8, 3, 3, 7, 0};
  const auto num = static_cast<int64_t>(ids.size());
  const auto table = random_values<T>("table", kTable * width), y = random_values<T>("y", num * width);
  const auto dtable = random_values<float>("dtable", kTable * width);
  std::vector<double> want(y.size());
  auto sum = doubles(y), want_dtable = doubles(dtable);
  gather_rows_ref(doubles(table), width, ids, want);
  gather_rows_add_ref(doubles(table), width, ids, sum);
  scatter_rows_add_ref(doubles(y), width, ids, want_dtable);
  Guarded<T> got(y.size()), got_sum(y);
  Guarded<float> got_dtable(dtable);
  gather_rows<T>(table, width, ids, got.span());
  gather_rows_add<T>(table, width, ids, got_sum.span());
  scatter_rows_add<T>(y, width, ids, got_dtable.span());
  EXPECT_TRUE(is_close(got, want, {}));
  EXPECT_TRUE(is_close(got_sum, sum, kOneRounding<T>));
  EXPECT_TRUE(is_close(got_dtable, want_dtable, {.absolute = 4 * 16 * kRoundoff<float>}));
}

TEST(Vector, ElementWiseMatchesRef) {
  for_each_isa([] {
    for (const int64_t n : kCounts) element_wise_matches<float>(n), element_wise_matches<bf16>(n);
  });
}
TEST(Vector, AddAndClearIsAddAndLeavesZeros) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 33, 1000, 2048, 2049, 150001}) {
      const auto x = random_values<float>("x", n), y = random_values<float>("y", n);
      Guarded<float> want(y), got(y), cleared(x), zeros(std::vector<float>(static_cast<size_t>(n), 0.0f));
      add<float>(x, want.span());
      add_and_clear(cleared.span(), got.span());
      EXPECT_TRUE(same_bits(got.values(), want.values())) << n;
      EXPECT_TRUE(same_bits(cleared.values(), zeros.values())) << n;
      EXPECT_TRUE(got.guards_intact() && cleared.guards_intact()) << n;
    }
  });
}

TEST(Vector, GatheringAndScatteringMatchRefAndAccumulate) {
  for_each_isa([] {
    for (const int64_t n : kCounts) gathering_matches<float>(n), gathering_matches<bf16>(n);
  });
}

// ⟨gather(table), dy⟩ = ⟨table, scatter(dy)⟩.
TEST(VectorRef, ScatterIsTheTransposeOfGather) {
  const std::vector<int32_t> ids = {1, 4, 1, 0};
  const auto table = random_values<double>("table", 5 * 6), dy = random_values<double>("dy", 4 * 6);
  std::vector<double> y(dy.size()), dtable(table.size(), 0.0);
  gather_rows_ref(table, 6, ids, y);
  scatter_rows_add_ref(dy, 6, ids, dtable);
  double left = 0, right = 0;
  for (size_t i = 0; i < y.size(); ++i) left += y[i] * dy[i];
  for (size_t i = 0; i < table.size(); ++i) right += table[i] * dtable[i];
  EXPECT_NEAR(left, right, 1e-13);
}

TEST(Vector, SumOfSquaresMatchesRefAcrossBlocks) {
  for_each_isa([] {
    for (const int64_t n : {1, 7, 33, 1000, 65536, 65537, 200001}) {
      const auto x = random_values<float>("x", n);
      EXPECT_NEAR(sum_of_squares(x) / sum_of_squares_ref(doubles(x)), 1, static_cast<double>(n) * kRoundoff<double>)
          << n;
    }
    EXPECT_EQ(sum_of_squares({}), 0);
    const std::vector<float> large(3, 3e38f);  // squares beyond f32
    EXPECT_TRUE(std::isfinite(sum_of_squares(large)));
  });
}

TEST(Vector, AllFiniteSeesOneBadElementAnywhere) {
  for_each_isa([] {
    for (const int64_t n : {1, 16, 17, 1000, 150000}) {
      auto x = random_values<float>("x", n);
      x[0] = std::numeric_limits<float>::max();
      EXPECT_TRUE(all_finite(x)) << n;
      for (const float bad : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN()})
        for (const size_t at : {size_t{0}, x.size() / 2, x.size() - 1}) {
          const float kept = std::exchange(x[at], bad);
          EXPECT_FALSE(all_finite(x)) << n << " at " << at;
          x[at] = kept;
        }
    }
  });
}

TEST(Vector, ThreadsChangeNoBit) {
  for_each_isa([] {
    constexpr int64_t kWidth = 330, kRows = 701;
    const auto rows = random_values<bf16>("rows", kRows * kWidth);
    const auto floats = random_values<float>("floats", kRows * kWidth);
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < kRows; ++r) ids.push_back(static_cast<int32_t>(r * 31 % 40));
    struct Results {
      Guarded<float> db, dtable;
      double squares;
    };
    const auto run = [&](int threads) {
      Results g{Guarded<float>(random_values<float>("db", kWidth)),
                Guarded<float>(random_values<float>("dtable", 40 * kWidth)), 0};
      with_threads(threads, [&] {
        bias_backward<bf16>(rows, g.db.span());
        scatter_rows_add<bf16>(rows, kWidth, ids, g.dtable.span());
        g.squares = sum_of_squares(floats);
      });
      return g;
    };
    Results one = run(1);
    for (const int threads : {2, 3}) {
      Results other = run(threads);
      EXPECT_TRUE(same_bits(other.db.values(), one.db.values()));
      EXPECT_TRUE(same_bits(other.dtable.values(), one.dtable.values()));
      EXPECT_EQ(other.squares, one.squares);
    }
  });
}

}  // namespace
}  // namespace tern
