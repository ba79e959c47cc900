#include "adapt/stream_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/bar_chart.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/run_page.h"
#include "report/table.h"

namespace tern {
namespace {

// A plot has colours for six lines. The next six are dashed.
constexpr size_t kLineColours = 6;

const char* unit_of(const StreamScores& s) { return s.accuracy ? "share right" : "bits per byte"; }

// Two rows of a legend together are longer than half of the default width, so this leaves the lines their height.
int height_for_legend(const std::vector<std::string>& names) {
  size_t pixels = 0;
  for (const std::string& name : names) pixels += 44 + 7 * name.size();
  return LinePlot{}.height + static_cast<int>(18 * (pixels / 320));
}

std::string score_lines(const StreamScores& s) {
  LinePlot plot{.title = fmt::format("{} of each task", unit_of(s)),
                .x = {.label = "tasks learned", .whole = true},
                .y = {.label = unit_of(s)},
                .height = height_for_legend(s.tasks)};
  for (size_t t = 0; t < s.tasks.size(); ++t) {
    Series line{.name = s.tasks[t], .x = {0}, .y = {s.before[t]}, .points = true};
    line.dashed = t / kLineColours % 2 == 1;
    for (size_t i = 0; i < s.rows.size(); ++i) {
      line.x.push_back(static_cast<double>(i + 1));
      line.y.push_back(s.rows[i][t]);
    }
    plot.series.push_back(std::move(line));
  }
  return svg(plot);
}

std::string kept_bars(const StreamResult& r) {
  int64_t most = 0;
  for (const TaskCost& c : r.costs) most = std::max(most, c.kept_bytes);
  const int shift = most >= int64_t{1} << 30 ? 30 : most >= int64_t{1} << 20 ? 20 : 10;
  BarChart chart{.title = "Kept for the next task", .unit = shift == 30 ? "GiB" : shift == 20 ? "MiB" : "KiB"};
  for (size_t t = 0; t < r.costs.size(); ++t)
    chart.bars.push_back({.name = "after " + r.scores.tasks[t],
                          .value = static_cast<double>(r.costs[t].kept_bytes) / static_cast<double>(1 << shift)});
  return svg(chart);
}

// The rows of table_of (adapt/stream_scores.h).
Table score_table(const StreamScores& s) {
  Table table;
  table.columns.push_back({unit_of(s)});
  for (const std::string& task : s.tasks) table.columns.push_back({task, Align::right});
  const auto add = [&](const std::string& name, const std::vector<double>& scores) {
    std::vector<std::string> row{name};
    for (const double score : scores) row.push_back(fmt::format("{:.4f}", score));
    table.rows.push_back(std::move(row));
  };
  add("before", s.before);
  for (size_t i = 0; i < s.rows.size(); ++i) add("after " + s.tasks[i], s.rows[i]);
  if (!s.alone.empty()) add("each alone", s.alone);
  if (!s.together.empty()) add("all together", s.together);
  return table;
}

// The definitions of docs/continual.md.
Table summary_table(const StreamScores& s) {
  const StreamSummary m = summary_of(s);
  Table table{{{"measure"}, {unit_of(s), Align::right}, {"says"}}, {}};
  table.rows.push_back({"AP", fmt::format("{:.4f}", m.average),
                        "The mean score of all tasks after the last task: mean over j of a[T][j]."});
  const auto add = [&](const char* name, const std::optional<double>& value, const char* words, const char* bits,
                       const char* shares) {
    if (value)
      table.rows.push_back(
          {name, fmt::format("{:+.4f}", *value), fmt::format("{}: mean over {}.", words, s.accuracy ? shares : bits)});
  };
  add("FT", m.forgot, "How much worse the tasks are after the last task than they were at their best before it",
      "j < T of a[T][j] − min over l < T of a[l][j]", "j < T of max over l < T of a[l][j] − a[T][j]");
  add("BWT", m.backward, "How much better the tasks are after the last task than when each had just been learned",
      "j < T of a[j][j] − a[T][j]", "j < T of a[T][j] − a[j][j]");
  add("FWT", m.forward, "How much better the tasks were just before each was learned than as the model came",
      "j > 1 of a[0][j] − a[j−1][j]", "j > 1 of a[j−1][j] − a[0][j]");
  return table;
}

Table cost_table(const StreamResult& r) {
  Table table{{{"task"}, {"numbers trained", Align::right}, {"bytes kept", Align::right}}, {}};
  const bool directions = std::ranges::any_of(r.costs, [](const TaskCost& c) { return c.all_dim > 0; });
  if (directions) table.columns.push_back({"input directions protected", Align::right});
  for (size_t t = 0; t < r.costs.size(); ++t) {
    const TaskCost& c = r.costs[t];
    table.rows.push_back({r.scores.tasks[t], format_with_commas(c.trained), format_with_commas(c.kept_bytes)});
    if (directions) table.rows.back().push_back(fmt::format("{} of {}", c.protected_dim, c.all_dim));
  }
  return table;
}

Table stream_facts(const StreamSettings& s, const StreamResult& r) {
  Table table{{{"setting"}, {"value"}}, {}};
  table.rows.push_back({"method", std::string(name_of(s.method))});
  table.rows.push_back({"model", s.train.model});
  for (size_t t = 0; t < s.tasks.size(); ++t) table.rows.push_back({fmt::format("task {}", t + 1), r.scores.tasks[t]});
  return table;
}

}  // namespace

std::string stream_page(const StreamSettings& s, const StreamResult& r) {
  const StreamScores& scores = r.scores;
  const size_t tasks = s.tasks.size(), learned = scores.rows.size();
  const bool at_once = s.method == StreamMethod::multitask, whole = at_once || learned == tasks;
  HtmlPage page(fmt::format("{}, learned by {}", counted(static_cast<int64_t>(tasks), "task"), name_of(s.method)));
  if (!whole) page.read_again_every(kPageSeconds);
  page.paragraph(at_once ? "One run has learned all tasks together."
                 : whole
                     ? "All tasks are learned."
                     : fmt::format("{} of {} tasks are learned. The page is written anew after each.", learned, tasks));
  page.table(stream_facts(s, r));
  page.heading("Scores");
  page.paragraph(fmt::format("The score is {}, of which {} is better.",
                             scores.accuracy ? "the share of right answers" : "bits per byte of the task's test",
                             scores.accuracy ? "more" : "less"));
  if (learned > 0) page.svg(score_lines(scores), "At 0 the model as it came. From i − 1 to i task i is learned.");
  page.table(score_table(scores));
  if (learned > 0 && whole) {
    page.paragraph(
        "Of T tasks, a[i][j] is the score of task j after task i was learned, a[0][j] that of the model as it came. FT "
        "above 0 and BWT below 0 both say that something was forgotten.");
    page.table(summary_table(scores));
  }
  if (!r.costs.empty()) {
    page.heading("Costs");
    page.svg(kept_bars(r), "What the next task needs beside the model.");
    page.table(cost_table(r));
  }
  return page.str();
}

}  // namespace tern
