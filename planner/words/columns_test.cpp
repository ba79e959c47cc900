#include "planner/words/columns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/rng.h"
#include "base/text.h"

namespace tern {
namespace {

size_t widest(const std::string& text) {
  size_t most = 0;
  for (const std::string_view line : split(text, '\n')) most = std::max(most, display_width(line));
  return most;
}
std::string words_of(const std::string& text) {
  const std::string line = replace_all(text, "\n", " ");
  std::vector<std::string> words;
  for (const std::string_view w : split_words(line)) words.emplace_back(w);
  return join(words, " ");
}

TEST(FitColumns, AParagraphThatWasWrappedIsOneAgain) {
  const std::string text = labelled("proof",
                                    "no choice is faster than 2.287 s: simulator gap 0.00 %, model gap 0.00 %; of "
                                    "these choices, in this space, by the stage model's times") +
                           labelled("", "a second paragraph");
  EXPECT_EQ(fit_columns(text, 120), text);
  EXPECT_EQ(fit_columns(text, 80),
            "proof      no choice is faster than 2.287 s: simulator gap 0.00 %, model gap\n"
            "           0.00 %; of these choices, in this space, by the stage model's times\n"
            "           a second paragraph\n");
  EXPECT_EQ(fit_columns(text, 40),
            "proof: no choice is faster than 2.287\n"
            "  s: simulator gap 0.00 %, model gap\n"
            "  0.00 %; of these choices, in this\n"
            "  space, by the stage model's times\n"
            "  a second paragraph\n");
}

TEST(FitColumns, ARowGoesOnBetweenItsCells) {
  const std::string row =
      "  schedule 1f1b               2.301 s    2.310 s  tp 2, dp 4, pp 1, micro-batch 1 × 4, and words that go on\n";
  EXPECT_EQ(fit_columns(row, 80),
            "  schedule 1f1b  2.301 s  2.310 s\n      tp 2, dp 4, pp 1, micro-batch 1 × 4, and words that go on\n");
  EXPECT_EQ(fit_columns("  short   row\n\nend\n", 40), "  short   row\n\nend\n");
}

// Whatever the text: nothing wider but words that are, and no word lost.
TEST(FitColumns, NothingIsWiderAndNoWordIsLost) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const auto draw = [&](uint64_t what, uint64_t most) { return random_u64({.seed = seed}, what) % most; };
    std::string text;
    for (uint64_t line = 0; line < 6; ++line) {
      std::string words;
      for (uint64_t w = 0; w < draw(line, 40); ++w)
        words += (words.empty()                  ? ""
                  : draw(100 * line + w, 7) == 0 ? "   "
                                                 : " ") +
                 std::string(1 + draw(1000 * line + w, 11), w % 9 == 0 ? '%' : 'x');
      const uint64_t kind = draw(7 + line, 3);
      if (kind == 0 && !words.empty()) text += labelled(line % 2 ? "" : "label", words);
      if (kind == 1) text += "  " + words + "\n";
      if (kind == 2) text += words + "\n";
    }
    for (const size_t columns : {40, 61, 80, 119}) {
      const std::string fitted = fit_columns(text, columns);
      EXPECT_LE(widest(fitted), columns) << text << "\n" << fitted;
      EXPECT_TRUE(replace_all(words_of(fitted), ":", "") == words_of(text)) << columns << "\n"
                                                                            << text << "\n"
                                                                            << fitted;
    }
  }
}

}  // namespace
}  // namespace tern
