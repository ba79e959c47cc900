#include "infer/stop.h"

#include <gtest/gtest.h>

#include <random>

namespace tern {
namespace {

TEST(StopFilter, FindsAStopAcrossPieces) {
  StopFilter filter({"END", "\n\n"});
  EXPECT_EQ(filter.push("one E"), "one ");
  EXPECT_EQ(filter.push("N"), "");
  EXPECT_EQ(filter.push("Dafter"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.matched(), "END");
  EXPECT_EQ(filter.push("more"), "");
}

TEST(StopFilter, GivesBackWhatWasNoStop) {
  StopFilter filter({"abc"});
  EXPECT_EQ(filter.push("xab"), "x");
  EXPECT_EQ(filter.push("d"), "abd");
  EXPECT_EQ(filter.push("ab"), "");
  EXPECT_EQ(filter.finish(), "ab");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilter, EqualsSearchInTheWholeTextWhateverThePieces) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 24; ++i) text += static_cast<char>('a' + random() % 2);
    const std::vector<std::string> stops = {"abbab", "bba", "aaaab"};  // one inside another: the inner one ends first
    size_t first = std::string::npos, first_end = std::string::npos;
    for (const auto& stop : stops)
      if (const size_t at = text.find(stop); at != std::string::npos && at + stop.size() < first_end) {
        first = at;
        first_end = at + stop.size();
      }
    StopFilter filter(stops);
    std::string got;
    for (size_t at = 0; at < text.size();) {
      const size_t n = 1 + random() % 4;
      got += filter.push(text.substr(at, n));
      at += n;
    }
    got += filter.finish();
    ASSERT_EQ(got, text.substr(0, first)) << text;
    ASSERT_EQ(filter.stopped(), first != std::string::npos);
  }
}

}  // namespace
}  // namespace tern
