#include "apps/demo_report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tern {
namespace {

MetricRow row(int64_t step, double loss) { return {step, 1, {{"train/loss", loss}, {"train/grad_norm", loss / 2}}}; }

DemoFacts example() {
  DemoFacts f{.source = "43 files",
              .how_held_out = "every twentieth",
              .text_bytes = 1000,
              .steps = 50,
              .tokens_per_step = 64,
              .killed_at_step = 40,
              .resumed_from_step = 20,
              .bits_per_byte = 2.25,
              .xz_bits_per_byte = 2.571,
              .samples = {{"Love <", "is & blind"}},
              .commands = {"tern train x"}};
  for (int step = 10; step <= 40; step += 10) f.before.push_back(row(step, 5 - 0.05 * step));
  for (int step = 10; step <= 50; step += 10) f.after.push_back(row(step, 5 - 0.05 * step));
  f.after.insert(f.after.begin() + 2, {20, 1, {{"eval/held-out/loss", 4.5}}});
  return f;
}

TEST(RepeatedRows, CountsOnlyWhatBothProcessesDid) {
  const Repeated same = repeated_rows(example());
  EXPECT_EQ(same.rows, 2);  // steps 30 and 40
  EXPECT_EQ(same.equal, 2);

  DemoFacts other = example();
  double& norm = other.before[3].values[1].second;
  norm = std::nextafter(norm, 9);
  EXPECT_EQ(repeated_rows(other).equal, 1);
  double& loss = other.before[2].values[0].second;
  loss = std::nextafter(loss, 9);
  EXPECT_EQ(repeated_rows(other).equal, 0);
  loss = other.after[3].values[0].second;
  other.after.erase(other.after.begin() + 3);  // step 30
  EXPECT_EQ(repeated_rows(other).equal, 0);
  EXPECT_EQ(repeated_rows(other).rows, 2);
}

TEST(LossTable, ShowsTheLastHeldOutLossUpToEachStep) {
  EXPECT_EQ(loss_table(example().after),
            "step  training loss  held-out loss\n"
            "----  -------------  -------------\n"
            "  10          4.500              -\n"
            "  20          4.000          4.500\n"
            "  30          3.500          4.500\n"
            "  40          3.000          4.500\n"
            "  50          2.500          4.500\n");
  EXPECT_EQ(loss_table({row(1, 2)}).find("2.000") != std::string::npos, true);
}

TEST(DemoSummary, SaysWhatWasLostAndWhatWasEqual) {
  const std::string text = demo_summary(example());
  for (const char* part : {"Killed with SIGKILL at step 40", "the checkpoint of step 20",
                           "Of the 2 logged steps that both processes did, 2 gave",
                           "2.250 bits per byte on text it never saw; xz -9e needs 2.571"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  DemoFacts none = example();
  none.killed_at_step = 0;
  none.xz_bits_per_byte.reset();
  EXPECT_NE(demo_summary(none).find("before it could be killed"), std::string::npos);
  EXPECT_NE(demo_summary(none).find("apt-get install xz-utils"), std::string::npos);
}

TEST(DemoHtml, HoldsPlotsFactsSamplesAndCommandsEscaped) {
  const std::string html = demo_html(example());
  for (const char* part :
       {"<svg", "held-out text", "lost to kill -9", "Love &lt;is &amp; blind", "tern train x", "xz -9e"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  EXPECT_EQ(html.find("http://"), html.find("http://www.w3.org/2000/svg")) << "nothing is fetched";
}

TEST(DemoJson, HasTheFiguresAndNullWithoutXz) {
  DemoFacts f = example();
  f.xz_bits_per_byte.reset();
  const std::string json = demo_json(f, "out/report.html");
  for (const char* part : {"\"bits_per_byte\": 2.25", "\"xz_bits_per_byte\": null", "\"repeated_rows_equal\": 2",
                           "\"report\": \"out/report.html\""})
    EXPECT_NE(json.find(part), std::string::npos) << part << json;
}

}  // namespace
}  // namespace tern
