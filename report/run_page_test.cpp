// The page of a run: what it shows while the run goes on, and of a long one.
#include "report/run_page.h"
#include "report/run_log.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tern {
namespace {

RunLog log_of(int64_t steps) {
  RunLog run{.name = "run", .log = {}};
  for (int64_t s = 1; s <= steps; ++s) {
    MetricRow row{
        .step = s, .time_s = 1, .values = {{"train/loss", 5.0 / static_cast<double>(s)}, {"perf/tokens_per_s", 1e4}}};
    if (s % 5 == 0) row.values.emplace_back("eval/held-out/loss", 4.0);
    run.log.rows.push_back(std::move(row));
  }
  return run;
}

TEST(RunPage, ShowsLossesTogetherAndTheRestByThemselves) {
  const std::string page = run_page(log_of(20), {.title = "a <run>",
                                                 .runs = true,
                                                 .step = 20,
                                                 .total_steps = 100,
                                                 .seconds_left = 80,
                                                 .facts = {{"lowest", "4 & up"}},
                                                 .settings = "seq = 8"});
  size_t plots = 0;
  for (size_t at = 0; (at = page.find("<svg", at)) != std::string::npos; ++at) ++plots;
  EXPECT_EQ(plots, 2u);
  for (const char* text : {"http-equiv=\"refresh\" content=\"10\"", "a &lt;run&gt;", "20 of 100", "time left",
                           "4 &amp; up", "seq = 8", "0.25 at step 20"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_EQ(page.find("point in"), std::string::npos);
}

TEST(RunPage, AnEndedRunIsNotReadAgainAndALongCurveSaysWhatItLeavesOut) {
  const std::string page = run_page(log_of(2500), {.title = "run", .step = 2500, .total_steps = 2500});
  EXPECT_EQ(page.find("http-equiv=\"refresh\""), std::string::npos);
  EXPECT_EQ(page.find("time left"), std::string::npos);
  EXPECT_NE(page.find("one point in 3 is drawn"), std::string::npos);
  EXPECT_LT(page.size(), 400'000u);
}

TEST(RunPage, OfNoRowsAndOfNumbersThatAreNoneIsAPageToo) {
  EXPECT_NE(run_page({.name = "run", .log = {}}, {.title = "run"}).find("0 of 0"), std::string::npos);
  RunLog bad{.name = "run", .log = {}};
  bad.log.rows.push_back({.step = 1, .time_s = 1, .values = {{"train/loss", NAN}}});
  EXPECT_NE(run_page(bad, {.title = "run", .step = 1, .total_steps = 2}).find("1 of 2"), std::string::npos);
}

}  // namespace
}  // namespace tern
