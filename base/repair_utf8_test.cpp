#include "base/repair_utf8.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "base/utf8.h"

namespace tern {
namespace {

// Bytes of every kind in any order, so that characters and ill-formed sequences of all lengths meet.
std::string mixed_bytes(uint64_t seed, size_t size) {
  constexpr std::string_view kBytes = "aZ \x80\x9f\xa0\xbf\xc2\xc3\xe0\xe2\xed\xef\xf0\xf4\xf5\xff";
  std::string text;
  for (uint64_t i = 0; text.size() < size; ++i) {
    const uint64_t drawn = random_u64({seed, 3}, i);
    if (drawn % 3 == 0) append_utf8(text, static_cast<uint32_t>(drawn >> 8) % 0x110000);
    if (drawn % 3 != 0) text += kBytes[(drawn >> 8) % kBytes.size()];
  }
  return text;
}

TEST(RepairUtf8, MakesWhatTheWholeTextsFunctionsMakeAndKnowsItsSize) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = mixed_bytes(seed, seed % 40);
    for (const auto how : {Utf8Repair::mark, Utf8Repair::leave_out}) {
      std::string out = "before";
      append_repaired_utf8(out, text, how);
      EXPECT_EQ(out, "before" + (how == Utf8Repair::mark ? make_valid_utf8(text) : without_invalid_utf8(text)));
      EXPECT_EQ(repaired_utf8_size(text, how), out.size() - 6);
    }
  }
}

TEST(RepairUtf8, PartsMakeWhatTheWholeMakes) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = mixed_bytes(seed, 60);
    for (size_t near = 4; near < 20; ++near) {
      std::string out;
      for (std::string_view rest = text; !rest.empty();) {
        const size_t end = utf8_boundary(rest, near);
        ASSERT_GT(end, 0u);
        ASSERT_LE(end, near);
        append_repaired_utf8(out, rest.substr(0, end), Utf8Repair::mark);
        rest.remove_prefix(end);
      }
      ASSERT_EQ(out, make_valid_utf8(text)) << "seed " << seed << ", near " << near;
    }
  }
}

TEST(RepairUtf8, ABoundaryIsTheLastPlaceThatIsOne) {
  EXPECT_EQ(utf8_boundary("abcdef", 4), 4u);
  EXPECT_EQ(utf8_boundary("abc", 9), 3u);
  EXPECT_EQ(utf8_boundary("abc\xF0\x9F\x98\x80z", 4), 3u);
  EXPECT_EQ(utf8_boundary("abc\xF0\x9F\x98\x80z", 6), 3u);
  EXPECT_EQ(utf8_boundary("abc\xF0\x9F\x98\x80z", 7), 7u);
  EXPECT_EQ(utf8_boundary(std::string(20, '\x80'), 9), 9u) << "no sequence is that long";
}

}  // namespace
}  // namespace tern
