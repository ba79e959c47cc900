#include "base/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/rng.h"

namespace tern {
namespace {

// The value of a half by its definition: sign, 5 bits of exponent, 10 of mantissa.
double half_value(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}

TEST(F16, AllBitPatternsReadAsDefined) {
  for (int b = 0; b < 65536; ++b) {
    const auto bits = static_cast<uint16_t>(b);
    const float got = to_float(f16{bits});
    const double want = half_value(bits);
    if (std::isnan(want))
      EXPECT_TRUE(std::isnan(got)) << b;
    else
      ASSERT_EQ(static_cast<double>(got), want) << b;
    ASSERT_EQ(std::signbit(got), (bits & 0x8000) != 0) << b;
  }
}

TEST(F16, AllBitPatternsRoundTrip) {
  for (int b = 0; b < 65536; ++b) {
    const f16 x{static_cast<uint16_t>(b)};
    const float f = to_float(x);
    if (std::isnan(f)) {
      const f16 back = to_f16(f);
      EXPECT_TRUE(std::isnan(to_float(back))) << b;
      EXPECT_TRUE(back.bits & 0x200) << "NaN becomes quiet";
    } else {
      ASSERT_EQ(to_f16(f).bits, x.bits) << b;
    }
  }
}

// Nearest by searching neighbours in f64; ties must go to the even mantissa.
TEST(F16, RoundsToNearestEven) {
  for (int b = 0; b < 0x7bff; ++b) {  // every pair of neighbours up to the largest finite
    const float low = to_float(f16{static_cast<uint16_t>(b)}), high = to_float(f16{static_cast<uint16_t>(b + 1)});
    const float middle = (low + high) / 2;  // exact in f32
    const int even = b % 2 == 0 ? b : b + 1;
    ASSERT_EQ(to_f16(middle).bits, even) << b;
    ASSERT_EQ(to_f16(std::nextafter(middle, 0.f)).bits, b) << b;
    ASSERT_EQ(to_f16(std::nextafter(middle, 1e9f)).bits, b + 1) << b;
    ASSERT_EQ(to_f16(-middle).bits, even | 0x8000) << b;
  }
  EXPECT_EQ(to_f16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(to_f16(65520.f).bits, 0x7c00) << "the tie above the largest finite goes to infinity";
  EXPECT_EQ(to_f16(1e30f).bits, 0x7c00);
  EXPECT_EQ(to_f16(-INFINITY).bits, 0xfc00);
}

TEST(Bf16, AllBitPatternsRoundTrip) {
  for (int b = 0; b < 65536; ++b) {
    const bf16 x{static_cast<uint16_t>(b)};
    const float f = to_float(x);
    if (std::isnan(f))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(f)))) << b;
    else
      ASSERT_EQ(to_bf16(f).bits, x.bits) << b;
  }
}

TEST(Bf16, RoundsToNearestEven) {
  for (int b = 0; b < 0x7f7f; ++b) {
    const uint32_t middle = (static_cast<uint32_t>(b) << 16) | 0x8000u;
    const int even = b % 2 == 0 ? b : b + 1;
    ASSERT_EQ(to_bf16(std::bit_cast<float>(middle)).bits, even) << b;
    ASSERT_EQ(to_bf16(std::bit_cast<float>(middle - 1)).bits, b) << b;
    ASSERT_EQ(to_bf16(std::bit_cast<float>(middle + 1)).bits, b + 1) << b;
  }
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()).bits, 0x7f80) << "above the largest finite: infinity";
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u))))) << "a NaN in the low bits stays one";
}

TEST(DType, NamesRoundTripAndSizesMatch) {
  for (const DType t : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32, DType::i16, DType::u16,
                        DType::i8, DType::u8, DType::boolean})
    EXPECT_EQ(dtype_from_name(name_of(t)), t);
  EXPECT_EQ(dtype_from_name("bfloat16"), DType::bf16);
  EXPECT_EQ(dtype_from_name("float64"), DType::f64);
  EXPECT_EQ(size_of(DType::f64), 8);
  EXPECT_EQ(size_of(DType::bf16), 2);
  EXPECT_EQ(size_of(DType::boolean), 1);
}

TEST(DType, AnUnknownNameIsAUsageError) {
  try {
    dtype_from_name("fp8");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage);
    EXPECT_STREQ(error.what(), "dtype 'fp8' is not known; use f32, bf16, f16 or f64");
  }
}

}  // namespace
}  // namespace tern
