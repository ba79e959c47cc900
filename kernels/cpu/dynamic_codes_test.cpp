#include "kernels/cpu/dynamic_codes.h"

#include "kernels/kernel_testing.h"

namespace tern {
namespace {

TEST(Codes, AreSortedAndEveryValueEncodesToItself) {
  for (const auto* values : {&signed_codes(), &unsigned_codes()}) {
    EXPECT_TRUE(std::is_sorted(values->begin(), values->end()));
    EXPECT_EQ((*values)[255], 1);
    EXPECT_EQ(std::count(values->begin(), values->end(), 0.0f), 1);
    std::vector<uint8_t> codes(256);
    EXPECT_EQ(encode(*values, *values, codes), 1.0f);
    for (size_t i = 0; i < 256; ++i) ASSERT_EQ(codes[i], i);
  }
}

TEST(Codes, TheNearestIsTakenTiesUpwardsAndZerosStay) {
  const std::array<float, 256>& values = signed_codes();
  std::vector<float> x = {1.0f};
  for (size_t i = 0; i + 1 < 256; ++i) x.push_back(values[i] + (values[i + 1] - values[i]) * 0.25f);
  std::vector<uint8_t> codes(x.size());
  encode(x, values, codes);
  for (size_t i = 1; i < x.size(); ++i) ASSERT_EQ(codes[i], i - 1);
  const float tie = (values[255] + values[254]) * 0.5f;
  std::vector<uint8_t> two(2);
  encode(std::vector<float>{1.0f, tie}, values, two);
  EXPECT_EQ(two[1], tie - values[254] >= (values[255] - values[254]) * 0.5f ? 255 : 254);
  std::vector<uint8_t> zeros(3);
  EXPECT_EQ(encode(std::vector<float>{0, 0, 0}, values, zeros), 1e-12f);
  for (const uint8_t code : zeros) EXPECT_EQ(values[code], 0);
}

// Around every value and every middle between two, one unit in the last place apart, and at random: what trying all of them gives.
TEST(Codes, AreThoseOfTryingEachValue) {
  for (const auto* values : {&signed_codes(), &unsigned_codes()}) {
    std::vector<float> all = {1.0f};
    for (size_t i = 0; i + 1 < 256; ++i)
      for (const float at : {(*values)[i], (*values)[i] + ((*values)[i + 1] - (*values)[i]) * 0.5f})
        for (const float x : {std::nextafter(at, -2.0f), at, std::nextafter(at, 2.0f)})
          all.push_back(std::min(x, 1.0f));
    for (const float x : random_values<float>("codes", 2000, 0.2)) all.push_back(std::clamp(x, -1.0f, 1.0f));
    for (size_t begin = 0; begin < all.size(); begin += 1000) {
      std::vector<float> x(all.begin() + static_cast<std::ptrdiff_t>(begin),
                           all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), begin + 1000)));
      x.push_back(1.0f);  // the scale
      std::vector<uint8_t> codes(x.size());
      ASSERT_EQ(encode(x, *values, codes), 1.0f);
      for (size_t i = 0; i < x.size(); ++i) {
        const auto above = std::upper_bound(values->begin(), values->end(), x[i]);
        const auto low = static_cast<size_t>(std::max<std::ptrdiff_t>(above - values->begin() - 1, 0)),
                   high = std::min<size_t>(low + 1, 255);
        const bool up = x[i] - (*values)[low] >= ((*values)[high] - (*values)[low]) * 0.5f;
        ASSERT_EQ(codes[i], up ? high : low) << x[i];
      }
    }
  }
}

}  // namespace
}  // namespace tern
