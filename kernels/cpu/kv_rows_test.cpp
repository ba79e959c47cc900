#include "kernels/cpu/kv_rows.h"

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

constexpr KvType kCodes[] = {KvType::q8, KvType::q4};

template <class T>
std::vector<T> there_and_back(KvType type, const std::vector<T>& x) {
  const auto n = static_cast<int64_t>(x.size());
  Guarded<uint8_t> row(static_cast<size_t>(kv_row_bytes(type, n)));
  write_kv_row(type, x.data(), n, row.data());
  EXPECT_TRUE(row.guards_intact());
  Guarded<T> out(x.size());
  read_kv_row(type, row.data(), n, out.data());
  EXPECT_TRUE(out.guards_intact());
  return {out.values().begin(), out.values().end()};
}

// By the formula, in doubles: of the rounded quotient and three larger scales the one with the least squared error.
std::vector<double> by_formula(KvType type, const std::vector<double>& x) {
  double top = 0;
  for (const double v : x)
    if (std::abs(v) > std::abs(top)) top = v;
  const auto quotient = static_cast<float>(type == KvType::q8 ? std::abs(top) / 127 : top / -8);
  const double least = type == KvType::q8 ? -127 : -8, most = type == KvType::q8 ? 127 : 7;
  std::vector<double> best(x.size());
  double least_error = INFINITY;
  bf16 kept = to_bf16(quotient);
  for (int i = 0; i < 4 && to_float(kept) != 0; ++i, ++kept.bits) {
    const double scale = to_float(kept);
    std::vector<double> y;
    double error = 0;
    for (const double v : x) {
      y.push_back(scale * std::clamp(std::nearbyint(v / scale), least, most));
      error += (v - y.back()) * (v - y.back());
    }
    if (error < least_error) least_error = error, best = y;
  }
  return best;
}

TEST(KvRows, CodesAreThoseOfTheFormula) {
  for (const KvType type : kCodes)
    for (const int64_t n : {1, 2, 3, 7, 16, 33, 64, 128, 257})
      for (const double spread : {1e-30, 1e-6, 1.0, 1e4, 1e30}) {
        const auto x = random_values<float>("x", n, spread);
        const auto want = by_formula(type, doubles(x)), got = doubles(there_and_back(type, x));
        ASSERT_EQ(got, want) << name_of(type) << ", " << n << " of " << spread;
        const auto half = random_values<bf16>("x", n, spread);
        std::vector<double> want_half;  // no bits: a code knows no -0
        for (const double v : by_formula(type, doubles(half)))
          want_half.push_back(value_of(to_bf16(static_cast<float>(v))));
        ASSERT_EQ(doubles(there_and_back(type, half)), want_half);
        const auto wide = random_values<double>("x", n, spread);
        std::vector<double> narrow;
        for (const double v : wide) narrow.push_back(static_cast<float>(v));
        ASSERT_EQ(there_and_back(type, wide), by_formula(type, narrow));
      }
}

// Half a step in 8 bits; in 4 a whole one, where the largest number of the other sign is cut. A step is a little more than
// the quotient.
TEST(KvRows, ErrorsAreBelowAStep) {
  const auto x = random_values<float>("x", 128);
  double top = 0;
  for (const float v : x) top = std::max(top, std::abs(value_of(v)));
  const auto q8 = there_and_back(KvType::q8, x), q4 = there_and_back(KvType::q4, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::abs(value_of(q8[i]) - value_of(x[i])), 0.5 * (1 + 0x1p-5) * top / 127);
    EXPECT_LE(std::abs(value_of(q4[i]) - value_of(x[i])), (1 + 0x1p-5) * top / 8);
  }
}

TEST(KvRows, PlainTypesRoundOnce) {
  const auto x = random_values<float>("x", 33);
  EXPECT_EQ(there_and_back(KvType::f32, x), x);
  EXPECT_EQ(there_and_back(KvType::f64, x), x);
  const auto half = there_and_back(KvType::bf16, x);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(half[i], to_float(to_bf16(x[i])));
}

TEST(KvRows, ZerosStayZerosAndWhatIsNotFiniteSpoilsItsRowAlone) {
  for (const KvType type : kCodes) {
    EXPECT_EQ(there_and_back(type, std::vector<float>(9, 0.f)), std::vector<float>(9, 0.f));
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      auto x = random_values<float>("x", 9);
      x[4] = bad;
      for (const float v : there_and_back(type, x)) EXPECT_TRUE(std::isnan(v)) << name_of(type);
    }
  }
}

}  // namespace
}  // namespace tern
