#include "report/compare_runs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "report/run_log.h"

namespace tern {
namespace {

RunLog run(const std::string& name, const std::vector<double>& losses, double rate) {
  RunLog out{name, {}};
  for (size_t i = 0; i < losses.size(); ++i)
    out.log.rows.push_back(
        {static_cast<int64_t>(10 * (i + 1)), 1, {{"train/loss", losses[i]}, {"perf/tokens_per_s", rate}}});
  return out;
}

TEST(CompareRuns, FindsTheFirstDifferingBit) {
  const auto same = compare_runs(run("a", {3, 2, NAN}, 100), run("b", {3, 2, NAN}, 150));
  ASSERT_EQ(same.size(), 2u);
  EXPECT_EQ(same[0].tag, "train/loss");
  EXPECT_FALSE(same[0].first_difference_step);
  EXPECT_EQ(same[0].common_steps, 3);
  EXPECT_EQ(same[1].first_difference_step, 10);

  const auto other = compare_runs(run("a", {3, 2, 1}, 1), run("b", {3, std::nextafter(2.0, 3.0), 0.5}, 1));
  EXPECT_EQ(other[0].first_difference_step, 20);
  EXPECT_EQ(other[0].largest_difference, 0.5);
}

TEST(CompareRuns, SummarizesLastLowestAndMedian) {
  const auto tags = compare_runs(run("a", {4, 1, 3, 2}, 1), run("b", {NAN, 5}, 1));
  ASSERT_TRUE(tags[0].runs[0] && tags[0].runs[1]);
  EXPECT_EQ(tags[0].runs[0]->last, 2);
  EXPECT_EQ(tags[0].runs[0]->lowest, 1);
  EXPECT_EQ(tags[0].runs[0]->lowest_step, 20);
  EXPECT_EQ(tags[0].runs[0]->median, 2.5);
  EXPECT_EQ(tags[0].runs[1]->lowest, 5);
  EXPECT_EQ(tags[0].common_steps, 2);
}

TEST(CompareRuns, ShowsTagsOfOnlyOneRunAndStepsThatDoNotMeet) {
  RunLog a = run("a", {4, 3}, 1), b = run("b", {4, 3}, 1);
  for (MetricRow& row : b.log.rows) row.step += 5;
  b.log.rows.push_back({99, 1, {{"eval/valid/loss", 2}}});
  const auto tags = compare_runs(a, b);
  ASSERT_EQ(tags.size(), 3u);
  EXPECT_EQ(tags[0].common_steps, 0);
  EXPECT_FALSE(tags[2].runs[0]);
  const std::string text = table_text(outcome_table(tags));
  EXPECT_NE(text.find("no common step"), std::string::npos) << text;
}

TEST(CompareRuns, MeetsStepsThatOnlyPartlyOverlap) {
  RunLog a = run("a", {4, 3, 2, 1}, 1), b = run("b", {3, 2, 9}, 1);
  for (MetricRow& row : b.log.rows) row.step += 10;  // 20, 30, 40
  const auto tags = compare_runs(a, b);
  EXPECT_EQ(tags[0].common_steps, 3);
  EXPECT_EQ(tags[0].first_difference_step, 40);
}

TEST(CompareRuns, TablesSeparateOutcomeFromCost) {
  const auto tags = compare_runs(run("a", {3, 2}, 100), run("b", {3, 1}, 150));
  EXPECT_EQ(table_text(outcome_table(tags)),
            "tag (value @ step)  A last  B last    B - A  A lowest  B lowest  largest difference  first difference\n"
            "------------------  ------  ------  -------  --------  --------  ------------------  ----------------\n"
            "train/loss          2 @ 20  1 @ 20  -1 @ 20    2 @ 20    1 @ 20                   1  step 20\n");
  EXPECT_EQ(table_text(cost_table(tags)),
            "tag                A median  B median  B / A\n"
            "-----------------  --------  --------  -----\n"
            "perf/tokens_per_s       100       150  1.500\n");
}

TEST(CompareRuns, RunsOfOtherLengthsAreComparedAtTheLastStepTheyShare) {
  const auto tags = compare_runs(run("a", {5, 4, 3, 2}, 100), run("b", {6, 7}, 100));
  EXPECT_EQ(tags[0].last_common_step, 20);
  EXPECT_DOUBLE_EQ(tags[0].last_difference, 3);
  const Table table = outcome_table(tags);
  EXPECT_EQ(table.rows[0][1], "2 @ 40");
  EXPECT_EQ(table.rows[0][2], "7 @ 20");
  EXPECT_EQ(table.rows[0][3], "3 @ 20");
}

TEST(CompareRuns, ShowsTheSettingsInWhichRunsDifferAndNoOthers) {
  RunLog a = run("a", {3}, 1), b = run("b", {3}, 1);
  EXPECT_NE(settings_note(a, b).find("a has no recipe.toml"), std::string::npos);
  a.settings = {{"batch", "8"}, {"clip", "1"}, {"output", "a"}, {"seed", "1"}};
  b.settings = {{"batch", "8"}, {"output", "b"}, {"seed", "2"}};
  const Table table = settings_table(a, b);
  EXPECT_EQ(table.rows, (std::vector<std::vector<std::string>>{{"clip", "1", "-"}, {"seed", "1", "2"}}));
  EXPECT_EQ(settings_note(a, b), "");
  const auto tags = compare_runs(a, b);
  EXPECT_NE(compare_json(a, b, tags).find("\"key\": \"seed\""), std::string::npos);
  EXPECT_NE(compare_html(a, b, tags).find("<td>seed</td>"), std::string::npos);
  b.settings = a.settings;
  b.settings[2].second = "other";
  EXPECT_NE(settings_note(a, b).find("none differ"), std::string::npos);
}

TEST(CompareRuns, OfAStepLoggedTwiceTheLaterRowCounts) {
  RunLog a = run("a", {3, 2}, 1);
  a.log.rows.push_back({10, 2, {{"train/loss", 7}}});
  const TagSeries series = series_of(a, "train/loss");
  EXPECT_EQ(series.steps, (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(series.values, (std::vector<double>{7, 2}));
}

TEST(CompareRuns, WritesJsonCsvAndHtmlWithEveryTag) {
  const RunLog a = run("a", {3, NAN}, 100), b = run("b", {3, 1}, 150);
  const auto tags = compare_runs(a, b);
  EXPECT_NE(compare_json(a, b, tags).find("\"last\": \"NaN\""), std::string::npos) << compare_json(a, b, tags);
  EXPECT_EQ(compare_csv(a, b, tags).substr(0, 46), "tag,run,step,value\r\ntrain/loss,a,10,3\r\ntrain/l");
  const std::string html = compare_html(a, b, tags);
  for (const char* part : {"train/loss by step", "perf/tokens_per_s by step", "1 point not shown"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(ReadRun, SaysWhatARunDirectoryIs) {
  const std::string directory = testing::TempDir() + "read_run_" + std::to_string(getpid());
  std::filesystem::create_directories(directory);
  try {
    read_run(directory);
    ADD_FAILURE() << "accepted an empty directory";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::bad_file);
    EXPECT_NE(std::string(e.what()).find("--output of tern train"), std::string::npos) << e.what();
  }
  { MetricsLog(real_io(), directory + "/logs", -1); }
  EXPECT_THROW(read_run(directory), Error);  // no rows yet
  { MetricsLog(real_io(), directory + "/logs", -1).append({1, 0, {{"train/loss", 2}}}); }
  EXPECT_EQ(read_run(directory).log.rows.size(), 1u);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace tern
