#include "report/timeline.h"

#include <gtest/gtest.h>

#include "base/bug.h"
#include "report/capacity_chart.h"

namespace tern {
namespace {

int occurrences(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++n;
  return n;
}

Timeline two_rows() {
  return {.title = "a <step>",
          .kinds = {"forward", "backward"},
          .rows = {{"rank 0", {{0, 1, 0}, {1, 3, 1}}}, {"rank 1", {{1, 2, 0}, {2.5, 4, 1}}}},
          .end = 4};
}

// 900 wide: 788 pixels for 4 seconds from 96 on.
TEST(TimelineSvg, SpansLieWhereTheirTimesSay) {
  const std::string text = svg(two_rows());
  EXPECT_NE(text.find("M96.0 62.0h197.0v18"), std::string::npos) << text;
  EXPECT_NE(text.find("M293.0 62.0h394.0"), std::string::npos) << "1 to 3 seconds of 4";
  EXPECT_NE(text.find("M588.5 84.0h295.5"), std::string::npos) << "the second row, and the gap before it";
  EXPECT_EQ(occurrences(text, "<path"), 4) << "a path to a row and kind";
  EXPECT_NE(text.find("a &lt;step&gt;"), std::string::npos) << "text is escaped";
  EXPECT_EQ(text.rfind("<svg", 0), 0u);
  EXPECT_NE(text.find("</svg>"), std::string::npos);
}

TEST(TimelineSvg, ThousandsOfThinSpansStaySmallAndNoneIsInvisible) {
  Timeline t{.title = "many", .kinds = {"f", "b"}, .rows = {{"rank 0", {}}}, .end = 100'000};
  for (int i = 0; i < 100'000; ++i) t.rows[0].spans.push_back({i + 0.0, i + 0.9, i % 50'000 == 0});
  const std::string text = svg(t);
  EXPECT_LT(text.size(), 100'000u);
  EXPECT_EQ(occurrences(text, "f1 span"), 1);
  EXPECT_NE(text.find("h0.5v18"), std::string::npos) << "a span far below a pixel is half a pixel wide";
}

TEST(TimelineSvg, WhatIsNoTimelineIsABug) {
  Timeline t = two_rows();
  t.rows[0].spans[0].kind = 2;
  EXPECT_THROW(svg(t), Bug);
  t = two_rows();
  t.rows[0].spans[1].end = 5;
  EXPECT_THROW(svg(t), Bug);
  t = two_rows();
  t.rows.clear();
  EXPECT_THROW(svg(t), Bug);
}

TEST(CapacitySvg, BarsAreAgainstTheirOwnCapacityAndWhatIsOverSaysSo) {
  const std::string text = svg(CapacityChart{
      .title = "memory", .bars = {{"rank 0", 50, 80, "50 of 80"}, {"rank 1", 90, 80, "90 of 80"}}, .width = 900});
  EXPECT_EQ(occurrences(text, "(over)"), 1);
  EXPECT_EQ(occurrences(text, "class=\"f1\""), 1);
  EXPECT_NE(text.find("width=\"335.6\""), std::string::npos) << "50 of the most, 90, over 604 pixels: " << text;
  EXPECT_THROW(svg(CapacityChart{}), Bug);
  CapacityChart parts{.bars = {{"rank 0", 50, 80, "", {20, 0, 30}}}, .kinds = {"a", "b", "c"}};
  const std::string stacked = svg(parts);  // 80 over 604 pixels from 96 on
  EXPECT_NE(stacked.find("class=\"f0\" x=\"96.0\" y=\"56\" width=\"151.0\""), std::string::npos) << stacked;
  EXPECT_NE(stacked.find("class=\"f2\" x=\"247.0\" y=\"56\" width=\"226.5\""), std::string::npos) << stacked;
  EXPECT_EQ(occurrences(stacked, "class=\"f1\""), 1) << "in the legend alone";
  parts.bars[0].parts = {20, 0, 29};
  EXPECT_THROW(svg(parts), Bug) << "parts that are not the whole";
  EXPECT_THROW(svg(CapacityChart{.bars = {{"x", -1, 1, ""}}}), Bug);
}

}  // namespace
}  // namespace tern
