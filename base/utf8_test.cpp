#include "base/utf8.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace tern {
namespace {

TEST(Utf8, RefusesIllFormedSequences) {
  EXPECT_TRUE(is_valid_utf8("aé€😀\x7f"));
  for (const char* bad : {"\x80", "\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xc3"})
    EXPECT_FALSE(is_valid_utf8(bad)) << make_printable(bad);
  EXPECT_EQ(find_invalid_utf8("ab\xff"), 2u);
}

TEST(Utf8, EveryCodePointRoundTrips) {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    std::string text;
    append_utf8(text, code);
    const DecodedChar c = decode_utf8(text);
    ASSERT_TRUE(c.valid && c.code == code && c.num_bytes == static_cast<int>(text.size())) << code;
  }
  std::string text;
  append_utf8(text, 0xD800);
  append_utf8(text, 0x110000);
  EXPECT_EQ(text, "\xEF\xBF\xBD\xEF\xBF\xBD");
}

// Python: b"...".decode("utf-8", "replace")
TEST(Utf8, ReplacesLikeUnicodeRecommends) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(make_valid_utf8("a\xf0\x90\x80z"), "a" + r + "z") << "an unfinished sequence is one";
  EXPECT_EQ(make_valid_utf8("\xf0\x80\x80\x80"), r + r + r + r) << "an impossible second byte starts anew";
  EXPECT_EQ(make_valid_utf8("\xed\xa0\x80"), r + r + r);
  EXPECT_EQ(make_valid_utf8("\xe2\x82"), r);
  EXPECT_EQ(count_utf8("aé😀\xff"), 4u);
}

TEST(Utf8, TellsAnUnfinishedTail) {
  const std::string text = "aé€😀";
  for (size_t n = 0; n <= text.size(); ++n) {
    const std::string_view part = std::string_view(text).substr(0, n);
    const size_t tail = incomplete_utf8_tail(part);
    EXPECT_TRUE(is_valid_utf8(part.substr(0, n - tail))) << n;
    EXPECT_EQ(tail > 0, !is_valid_utf8(part)) << n;
  }
  EXPECT_EQ(incomplete_utf8_tail("\x80\x80\x80"), 0u) << "what can never be finished is not held back";
  EXPECT_EQ(incomplete_utf8_tail("\xe0\x80"), 0u);
  EXPECT_EQ(incomplete_utf8_tail("\xff"), 0u);
}

}  // namespace
}  // namespace tern
