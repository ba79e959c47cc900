#include "report/plot.h"

#include <gtest/gtest.h>

#include <cmath>

#include "report/bar_chart.h"
#include "report/html.h"

namespace tern {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// Every tag is closed in order: enough of XML's rules to notice a broken template.
void expect_well_formed(const std::string& markup) {
  std::vector<std::string> open;
  for (size_t at = markup.find('<'); at != std::string::npos; at = markup.find('<', at + 1)) {
    const size_t end = markup.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = markup.substr(at + 1, end - at - 1);
    const bool closing = tag[0] == '/';
    const std::string name = tag.substr(closing, tag.find_first_of(" \n/", 1) - closing);
    if (tag[0] == '!' || tag.back() == '/' || name == "meta") continue;
    if (!closing) {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << "</" << name << ">";
    ASSERT_EQ(open.back(), name);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty()) << open.back();
}

LinePlot falling() {
  return {.title = "loss & <more>",
          .x = {"step"},
          .y = {"nats"},
          .series = {{.name = "A", .x = {0, 50, 100}, .y = {4, 2, 1}}}};
}

TEST(LinePlotSvg, PutsPointsWhereTheScaleSays) {
  // 720 x 380: the plane spans x 64..704 and y 56..320; x ticks 0..100, y ticks 1..4.
  const std::string out = svg(falling());
  EXPECT_TRUE(has(out, "points=\"64.0,56.0 384.0,232.0 704.0,320.0\"")) << out;
  expect_well_formed(out);
  EXPECT_TRUE(has(out, "loss &amp; &lt;more&gt;"));
  EXPECT_FALSE(has(out, "not shown"));
}

TEST(LinePlotSvg, PlacesPowersEvenlyOnALogScale) {
  LinePlot plot = falling();
  plot.y.scale = Scale::log;
  plot.series[0].y = {100, 10, 1};
  EXPECT_TRUE(has(svg(plot), "points=\"64.0,56.0 384.0,188.0 704.0,320.0\"")) << svg(plot);
}

TEST(LinePlotSvg, CountsInWholeNumbers) {
  for (const double last : {1.0, 3.0, 9.0}) {
    LinePlot plot = falling();
    plot.series[0].x = {0, 1, last};
    plot.series[0].y = {40, 20, 10};  // none of its ticks is a number of the other axis
    plot.y.scale = Scale::log, plot.x.whole = true;
    const std::string out = svg(plot);
    EXPECT_FALSE(has(out, ">0.5<") || has(out, ">0.0<")) << out;
    EXPECT_TRUE(has(out, ">0<") && has(out, last < 9 ? ">1<" : ">8<")) << out;
  }
}

TEST(LinePlotSvg, BreaksTheLineAndCountsWhatItCannotShow) {
  LinePlot plot = falling();
  plot.series[0] = {.name = "A", .x = {0, 1, 2, 3, 4, 5}, .y = {4, 3, NAN, 2, INFINITY, 1}};
  const std::string out = svg(plot);
  EXPECT_EQ(count(out, "<polyline"), 1u) << out;  // 0-1; 3 and 5 stand alone
  EXPECT_EQ(count(out, "<circle"), 2u) << out;
  EXPECT_TRUE(has(out, "2 points not shown"));
  EXPECT_FALSE(has(out, "nan"));
  EXPECT_FALSE(has(out, "inf"));
}

TEST(LinePlotSvg, ShowsAnEmptyPlaneWhenNothingCanBeShown) {
  LinePlot plot = falling();
  plot.series[0].y = {NAN, NAN, NAN};
  const std::string out = svg(plot);
  EXPECT_TRUE(has(out, "3 points not shown"));
  expect_well_formed(out);
}

TEST(LinePlotSvg, ThinsALongSeriesButKeepsItsExtremes) {
  LinePlot plot = falling();
  plot.series[0].x.clear(), plot.series[0].y.clear();
  for (int i = 0; i < 200000; ++i)
    plot.series[0].x.push_back(i), plot.series[0].y.push_back(i == 77777 ? 9 : 1 + i % 2);
  const std::string out = svg(plot);
  EXPECT_LT(out.size(), 100000u);
  EXPECT_TRUE(has(out, ",82.4 ")) << "the spike: nine tenths of the axis from 0 to 10, which is 264 pixels high";
  EXPECT_TRUE(has(out, "each pixel shows its lowest and highest"));
}

TEST(LinePlotSvg, RefusesUnequalLengths) {
  LinePlot plot = falling();
  plot.series[0].x.pop_back();
  EXPECT_ANY_THROW(svg(plot));
  plot.series.clear();
  EXPECT_ANY_THROW(svg(plot));
}

TEST(BarChartSvg, DrawsLengthsInProportion) {
  const std::string out =
      svg(BarChart{.title = "bits per byte", .unit = "bits", .bars = {{"xz", 2.57}, {"tern", 1.285, "better"}}});
  std::vector<double> widths;
  const std::string after = "\" height=\"20\"", before = "width=\"";
  for (size_t at = out.find(after); at != std::string::npos; at = out.find(after, at + 1))
    widths.push_back(std::stod(out.substr(out.rfind(before, at - 1) + before.size())));
  ASSERT_EQ(widths.size(), 2u);
  EXPECT_NEAR(widths[1] / widths[0], 0.5, 1e-3);
  EXPECT_TRUE(has(out, "1.285 bits, better"));
  expect_well_formed(out);
  EXPECT_ANY_THROW(svg(BarChart{.bars = {{"x", -1}}}));
  EXPECT_ANY_THROW(svg(BarChart{.bars = {{"x", NAN}}}));
}

TEST(HtmlPage, EscapesTextAndFetchesNothing) {
  HtmlPage page("a <b>");
  page.heading("h & h");
  page.paragraph("<script>alert(1)</script>");
  page.preformatted(std::string("x\x01y", 3));
  page.table({{{"c"}}, {{"1"}}});
  page.svg(svg(falling()), "the caption");
  const std::string html = page.str();
  expect_well_formed(html);
  EXPECT_TRUE(has(html, "&lt;script&gt;"));
  EXPECT_TRUE(has(html, "x\xEF\xBF\xBDy"));
  EXPECT_FALSE(has(html, "<script"));
  for (const char* network : {"src=", "href=", "@import", "url("}) EXPECT_FALSE(has(html, network)) << network;
}

TEST(LinePlotSvg, ALongLegendTakesRowsInsteadOfLeavingThePicture) {
  LinePlot plot{.title = "many", .width = 400};
  for (int i = 0; i < 9; ++i)
    plot.series.push_back({.name = "a series with a name " + std::to_string(i), .x = {1}, .y = {2}, .points = true});
  const std::string picture = svg(plot);
  for (int i = 0; i < 9; ++i) {  // one name fits beside none of the others
    const size_t name = picture.find(">a series with a name " + std::to_string(i) + "<");
    const size_t tag = picture.rfind("<text", name);
    ASSERT_NE(name, std::string::npos);
    EXPECT_NE(picture.substr(tag, name - tag).find("y=\"" + std::to_string(42 + 18 * i) + ".0\""), std::string::npos)
        << i;
  }
}

}  // namespace
}  // namespace tern
