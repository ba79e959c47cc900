#pragma once
// Compares two training runs by their metrics logs, for `tern compare`: for each tag the last, lowest and median value of
// each run, and the first step at which the values of the two runs are not equal.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/run_log.h"
#include "report/table.h"

namespace tern {

/// The values of one tag in one run.
struct TagSummary {
  int64_t count = 0, last_step = 0, lowest_step = 0;
  double last = 0, lowest = 0, median = 0;  // lowest and median over the finite values; NaN if there are none
};

/// The values of one tag in both runs.
struct TagComparison {
  std::string tag;
  std::array<std::optional<TagSummary>, 2> runs;  // absent: this run has no such tag
  int64_t common_steps = 0;
  std::optional<int64_t> first_difference_step;  // of the common steps; two NaNs are equal
  double largest_difference = 0;                 // |A - B| over the common steps, where both are finite
  std::optional<int64_t>
      last_common_step;  // last_difference is B - A at this step; values of different steps are not compared
  double last_difference = 0;
};

/// Every tag of either run, in the order in which the logs first have them.
std::vector<TagComparison> compare_runs(const RunLog& a, const RunLog& b);

/// The settings in which the runs differ ("-": not set), without --output. No rows: they differ in none, or one of them
/// has no recipe.toml.
Table settings_table(const RunLog& a, const RunLog& b);
/// The note that replaces a table without rows, such as "Settings: none differ."; empty if the table has rows.
std::string settings_note(const RunLog& a, const RunLog& b);
/// A table of what was learned: the tags other than perf/ and mem/, each value with its step, and the first step at which
/// the runs differ.
Table outcome_table(const std::vector<TagComparison>& tags);
/// A table of what it cost: the medians of perf/ and mem/ and their ratios. No rows if neither run logged any.
Table cost_table(const std::vector<TagComparison>& tags);
/// The comparison as one JSON object: {"a": NAME, "b": NAME, "settings": [...], "tags": [...]}; values without a JSON
/// number are strings, as in the log.
std::string compare_json(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags);
/// The comparison as a page, with all tables and one plot for each tag.
std::string compare_html(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags);
/// All values as lines of CSV: tag,run,step,value.
std::string compare_csv(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags);

}  // namespace tern
