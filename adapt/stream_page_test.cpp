// Pages of streams worked out by hand.
#include "adapt/stream_page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace tern {
namespace {

bool shows(const std::string& page, const std::string& part) { return page.find(part) != std::string::npos; }

size_t times(const std::string& page, const std::string& part) {
  size_t n = 0;
  for (size_t at = page.find(part); at != std::string::npos; at = page.find(part, at + 1)) ++n;
  return n;
}

struct PageCase {
  StreamSettings settings;
  StreamResult result;
};

// The first `learned` of three tasks.
PageCase page_case(size_t learned) {
  PageCase c;
  c.settings.method = StreamMethod::inflora;
  c.settings.train.model = "models/a&b";
  c.result.scores = {.accuracy = false,
                     .tasks = {"plays", "<b>&", "verse"},
                     .before = {3, 4, 5},
                     .rows = {{1, 3.5, 4.5}, {1.25, 2, 4.75}, {1.5, 1.75, 2.5}},
                     .alone = {},
                     .together = {}};
  for (const std::string& name : c.result.scores.tasks)
    c.settings.tasks.push_back({.name = name, .data = "", .test = "", .steps = {}});
  c.result.scores.rows.resize(learned);
  for (size_t t = 0; t < learned; ++t)
    c.result.costs.push_back(
        {.trained = 1234, .kept_bytes = 2048 << t, .protected_dim = 5, .all_dim = 40, .seconds = 77.5});
  return c;
}

TEST(StreamPage, HasEachTaskWithItsScoresAndItsLine) {
  const PageCase c = page_case(3);
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_EQ(times(page, "<polyline"), 3u);
  EXPECT_EQ(times(page, "<circle"), 12u) << "as it came, and after each of three tasks";
  for (const std::vector<double>* row :
       {&c.result.scores.before, &c.result.scores.rows[0], &c.result.scores.rows[1], &c.result.scores.rows[2]})
    for (const double score : *row)
      EXPECT_TRUE(shows(page, fmt::format("<td class=\"right\">{:.4f}</td>", score))) << score;
  for (const char* text : {"<td>after plays</td>", "<td>after &lt;b&gt;&amp;</td>", "<td>after verse</td>",
                           "models/a&amp;b", "inflora", "bits per byte", "less is better", "1,234", "5 of 40"})
    EXPECT_TRUE(shows(page, text)) << text;
  EXPECT_FALSE(shows(page, "<b>&"));
  for (const char* network : {"src=", "href=", "@import", "url(", "<script", "http-equiv"})
    EXPECT_FALSE(shows(page, network)) << network;
  EXPECT_FALSE(shows(page, "77.5")) << "seconds are not the same when a stream was broken off";
}

// The first line: 3, 1, 1.25, 1.5 on axes from 0 to 3 and from 1 to 5.
TEST(StreamPage, ALineBeginsWhereTheModelCame) {
  const PageCase c = page_case(3);
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_TRUE(shows(page, "points=\"64.0,188.0 277.3,320.0 490.7,303.5 704.0,287.0\"")) << page;
}

TEST(StreamPage, SaysWhatWasForgottenAfterTheLastTask) {
  PageCase c = page_case(3);
  const std::string bits = stream_page(c.settings, c.result);
  for (const char* text :
       {"<td class=\"right\">1.9167</td>", "<td class=\"right\">+0.1250</td>", "<td class=\"right\">-0.1250</td>",
        "<td class=\"right\">+0.3750</td>", "mean over j &lt; T of a[T][j] − min over l &lt; T of a[l][j]"})
    EXPECT_TRUE(shows(bits, text)) << text;
  c.result.scores.accuracy = true;
  const std::string shares = stream_page(c.settings, c.result);
  EXPECT_TRUE(shows(shares, "share right"));
  EXPECT_TRUE(shows(shares, "more is better"));
  EXPECT_TRUE(shows(shares, "max over l &lt; T of a[l][j] − a[T][j]"));
  EXPECT_FALSE(shows(shares, "bits per byte"));
}

TEST(StreamPage, OnItsWayIsReadAgainAndHasNoSummary) {
  const PageCase c = page_case(2);
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_TRUE(shows(page, "2 of 3 tasks are learned"));
  EXPECT_TRUE(shows(page, "http-equiv=\"refresh\""));
  EXPECT_EQ(times(page, "<polyline"), 3u);
  EXPECT_FALSE(shows(page, "AP"));
  EXPECT_FALSE(shows(page, "after verse"));
}

TEST(StreamPage, OfOneTaskHasAnAverageAlone) {
  PageCase c = page_case(1);
  c.settings.tasks.resize(1);
  c.result.scores.tasks = {"a"}, c.result.scores.before = {3}, c.result.scores.rows = {{2}};
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_TRUE(shows(page, "<td>AP</td><td class=\"right\">2.0000</td>"));
  EXPECT_FALSE(shows(page, "<td>FT</td>") || shows(page, "<td>BWT</td>") || shows(page, "<td>FWT</td>"));
}

TEST(StreamPage, OfAllTasksAtOnceHasTheTableWithoutLines) {
  PageCase c = page_case(0);
  c.settings.method = StreamMethod::multitask;
  c.result.scores.together = {1.125, 2.125, 3.125};
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_EQ(times(page, "<svg"), 0u);
  EXPECT_FALSE(shows(page, "http-equiv"));
  EXPECT_TRUE(shows(page, "<td>all together</td><td class=\"right\">1.1250</td>"));
}

TEST(StreamPage, ManyLongNamesLeaveTheLinesTheirHeight) {
  PageCase c = page_case(1);
  StreamScores& s = c.result.scores;
  s.tasks.clear(), s.before.assign(40, 3), s.rows = {std::vector<double>(40, 2)};
  for (int t = 0; t < 40; ++t) s.tasks.push_back(std::string(60, 'n') + std::to_string(t));
  c.settings.tasks.assign(40, c.settings.tasks[0]);
  const std::string page = stream_page(c.settings, c.result);
  EXPECT_EQ(times(page, "<polyline"), 40u);
  EXPECT_EQ(times(page, "<polyline class=\"line s0\" stroke-dasharray"), 3u) << "lines 7, 19 and 31";
  // Names in 40 rows: the plane begins at 56 + 18 · 39.
  const size_t at = page.find("points=\"64.0,") + 13;
  EXPECT_NEAR(std::stod(page.substr(at)), 758, 0.1);
  EXPECT_GT(std::stod(page.substr(page.find(' ', at) + 7)), 758 + 264);
}

}  // namespace
}  // namespace tern
