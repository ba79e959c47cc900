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

// By the formula, in doubles: the scale is the rounded quotient, a code the nearest one that there is.
std::vector<double> by_formula(KvType type, const std::vector<double>& x) {
  double top = 0;
  for (const double v : x)
    if (std::abs(v) > std::abs(top)) top = v;
  const auto quotient = static_cast<float>(type == KvType::q8 ? std::abs(top) / 127 : top / -8);
  const double scale = to_float(to_bf16(quotient)), least = type == KvType::q8 ? -127 : -8,
               most = type == KvType::q8 ? 127 : 7;
  std::vector<double> y;
  for (const double v : x) y.push_back(scale == 0 ? 0 : scale * std::clamp(std::nearbyint(v / scale), least, most));
  return y;
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

// Half a step in 8 bits; in 4 a whole one, where the largest number of the other sign is cut.
TEST(KvRows, ErrorsAreBelowAStep) {
  const auto x = random_values<float>("x", 128);
  double top = 0;
  for (const float v : x) top = std::max(top, std::abs(value_of(v)));
  const auto q8 = there_and_back(KvType::q8, x), q4 = there_and_back(KvType::q4, x);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_LE(std::abs(value_of(q8[i]) - value_of(x[i])), 0.5 * (1 + 0x1p-8) * top / 127);
    EXPECT_LE(std::abs(value_of(q4[i]) - value_of(x[i])), (1 + 0x1p-8) * top / 8);
  }
}

TEST(KvRows, WritingWhatWasReadGivesTheSameNumbers) {
  for (const KvType type : kCodes)
    for (const int64_t n : {5, 64}) {
      const auto once = there_and_back(type, random_values<float>("x", n));
      EXPECT_EQ(there_and_back(type, once), once) << name_of(type);
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
