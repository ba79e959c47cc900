#include "report/compare_runs.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/run_log.h"

namespace tern {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_cost(const std::string& tag) { return tag.starts_with("perf/") || tag.starts_with("mem/"); }
bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

TagSummary summarize(const TagSeries& series) {
  TagSummary s{.count = static_cast<int64_t>(series.steps.size()),
               .last_step = series.steps.back(),
               .last = series.values.back(),
               .lowest = kNaN,
               .median = kNaN};
  std::vector<double> finite;
  for (size_t i = 0; i < series.steps.size(); ++i) {
    if (!std::isfinite(series.values[i])) continue;
    finite.push_back(series.values[i]);
    if (!(series.values[i] >= s.lowest)) s.lowest = series.values[i], s.lowest_step = series.steps[i];
  }
  if (!finite.empty()) {
    const size_t half = finite.size() / 2;
    std::sort(finite.begin(), finite.end());
    s.median = finite.size() % 2 ? finite[half] : 0.5 * (finite[half - 1] + finite[half]);
  }
  return s;
}

void compare_values(const TagSeries& a, const TagSeries& b, TagComparison& out) {
  for (size_t i = 0, j = 0; i < a.steps.size() && j < b.steps.size();) {
    if (a.steps[i] != b.steps[j]) {
      ++(a.steps[i] < b.steps[j] ? i : j);
      continue;
    }
    const double x = a.values[i], y = b.values[j];
    ++out.common_steps;
    out.last_common_step = a.steps[i];
    out.last_difference = y - x;
    if (!same(x, y) && !out.first_difference_step) out.first_difference_step = a.steps[i];
    if (std::isfinite(x) && std::isfinite(y))
      out.largest_difference = std::max(out.largest_difference, std::abs(x - y));
    ++i, ++j;
  }
}

std::vector<std::string> tags_of(const RunLog& a, const RunLog& b) {
  std::vector<std::string> tags;
  for (const RunLog* run : {&a, &b})
    for (const MetricRow& row : run->log.rows)
      for (const auto& [tag, value] : row.values)
        if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  return tags;
}

std::string short_number(double value) { return std::isnan(value) ? "NaN" : fmt::format("{:.5g}", value); }

std::string cell(const std::optional<TagSummary>& run, double TagSummary::*member) {
  return run ? short_number((*run).*member) : "-";
}

// "2.104 @ 600": a value without its step invites comparing what does not compare.
std::string at_step(double value, int64_t step) {
  return std::isnan(value) ? "NaN" : fmt::format("{} @ {}", short_number(value), step);
}

Json json_number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

Json json_summary(const std::optional<TagSummary>& run) {
  if (!run) return nullptr;
  return {{"count", run->count},
          {"last_step", run->last_step},
          {"last", json_number(run->last)},
          {"lowest", json_number(run->lowest)},
          {"lowest_step", run->lowest_step},
          {"median", json_number(run->median)}};
}

std::string tag_plot(const RunLog& a, const RunLog& b, const TagComparison& tag) {
  LinePlot plot{.title = tag.tag, .x = {"step"}, .y = {tag.tag}};
  for (const RunLog* run : {&a, &b}) {
    const TagSeries series = series_of(*run, tag.tag);
    if (series.steps.empty()) continue;
    plot.series.push_back({.name = run->name,
                           .x = {series.steps.begin(), series.steps.end()},
                           .y = series.values,
                           .points = series.steps.size() < 30,
                           .dashed = run == &b});
  }
  return svg(plot);
}

}  // namespace

std::vector<TagComparison> compare_runs(const RunLog& a, const RunLog& b) {
  std::vector<TagComparison> out;
  for (const std::string& tag : tags_of(a, b)) {
    const TagSeries x = series_of(a, tag), y = series_of(b, tag);
    TagComparison& comparison = out.emplace_back();
    comparison.tag = tag;
    if (!x.steps.empty()) comparison.runs[0] = summarize(x);
    if (!y.steps.empty()) comparison.runs[1] = summarize(y);
    compare_values(x, y, comparison);
  }
  return out;
}

Table settings_table(const RunLog& a, const RunLog& b) {
  Table table{{{"setting"}, {"A"}, {"B"}}, {}};
  if (a.settings.empty() || b.settings.empty()) return table;
  std::map<std::string, std::array<std::string, 2>> by_key;
  for (const auto& [key, value] : a.settings)
    by_key.try_emplace(key, std::array<std::string, 2>{"-", "-"}).first->second[0] = value;
  for (const auto& [key, value] : b.settings)
    by_key.try_emplace(key, std::array<std::string, 2>{"-", "-"}).first->second[1] = value;
  for (const auto& [key, values] : by_key)
    if (values[0] != values[1] && key != "output") table.rows.push_back({key, values[0], values[1]});
  return table;
}

std::string settings_note(const RunLog& a, const RunLog& b) {
  for (const RunLog* run : {&a, &b})
    if (run->settings.empty()) return fmt::format("Settings: {} has no recipe.toml to compare.", run->name);
  return settings_table(a, b).rows.empty() ? "Settings: none differ (--output apart)." : "";
}

Table outcome_table(const std::vector<TagComparison>& tags) {
  Table table{{{"tag (value @ step)"},
               {"A last", Align::right},
               {"B last", Align::right},
               {"B - A", Align::right},
               {"A lowest", Align::right},
               {"B lowest", Align::right},
               {"largest difference", Align::right},
               {"first difference", Align::left}},
              {}};
  const auto last = [](const auto& run) { return run ? at_step(run->last, run->last_step) : "-"; };
  const auto lowest = [](const auto& run) { return run ? at_step(run->lowest, run->lowest_step) : "-"; };
  for (const TagComparison& tag : tags) {
    if (is_cost(tag.tag)) continue;
    const auto& [a, b] = tag.runs;
    std::string first = "no common step";
    if (tag.first_difference_step)
      first = fmt::format("step {}", *tag.first_difference_step);
    else if (tag.common_steps > 0)
      first = fmt::format("none: {} equal step{}", tag.common_steps, tag.common_steps == 1 ? "" : "s");
    table.rows.push_back({tag.tag, last(a), last(b),
                          tag.last_common_step ? at_step(tag.last_difference, *tag.last_common_step) : "-", lowest(a),
                          lowest(b), tag.common_steps ? short_number(tag.largest_difference) : "-", first});
  }
  return table;
}

Table cost_table(const std::vector<TagComparison>& tags) {
  Table table{{{"tag"}, {"A median", Align::right}, {"B median", Align::right}, {"B / A", Align::right}}, {}};
  for (const TagComparison& tag : tags) {
    if (!is_cost(tag.tag)) continue;
    const auto& [a, b] = tag.runs;
    const bool ratio = a && b && a->median != 0 && std::isfinite(b->median / a->median);
    table.rows.push_back({tag.tag, cell(a, &TagSummary::median), cell(b, &TagSummary::median),
                          ratio ? fmt::format("{:.3f}", b->median / a->median) : "-"});
  }
  return table;
}

std::string compare_json(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags) {
  Json list = Json::array();
  for (const TagComparison& tag : tags) {
    Json first = nullptr;
    if (tag.first_difference_step) first = *tag.first_difference_step;
    Json common = nullptr;
    if (tag.last_common_step) common = *tag.last_common_step;
    list.push_back({{"tag", tag.tag},
                    {"a", json_summary(tag.runs[0])},
                    {"b", json_summary(tag.runs[1])},
                    {"common_steps", tag.common_steps},
                    {"first_difference_step", first},
                    {"last_common_step", common},
                    {"last_difference", json_number(tag.last_difference)},
                    {"largest_difference", json_number(tag.largest_difference)}});
  }
  Json settings = Json::array();
  for (const auto& row : settings_table(a, b).rows) settings.push_back({{"key", row[0]}, {"a", row[1]}, {"b", row[2]}});
  return dump_json(Json{{"a", a.name}, {"b", b.name}, {"settings", settings}, {"tags", list}}, 1);
}

std::string compare_html(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags) {
  HtmlPage page("Two runs: " + a.name + " and " + b.name);
  page.paragraph("A is " + a.name + ", B is " + b.name +
                 ". Differences are of bits: equal means equal to the last digit.");
  page.heading("What was asked for");
  if (const Table settings = settings_table(a, b); !settings.rows.empty())
    page.table(settings);
  else
    page.paragraph(settings_note(a, b));
  page.heading("What was learned");
  page.table(outcome_table(tags));
  if (const Table cost = cost_table(tags); !cost.rows.empty()) {
    page.heading("What it cost");
    page.table(cost);
  }
  page.heading("Plots");
  for (const TagComparison& tag : tags) page.svg(tag_plot(a, b, tag), tag.tag + " by step");
  return page.str();
}

std::string compare_csv(const RunLog& a, const RunLog& b, const std::vector<TagComparison>& tags) {
  Table table{{{"tag"}, {"run"}, {"step"}, {"value"}}, {}};
  for (const TagComparison& tag : tags)
    for (const RunLog* run : {&a, &b}) {
      const TagSeries series = series_of(*run, tag.tag);
      for (size_t i = 0; i < series.steps.size(); ++i)
        table.rows.push_back(
            {tag.tag, run->name, fmt::format("{}", series.steps[i]), fmt::format("{}", series.values[i])});
    }
  return table_csv(table);
}

}  // namespace tern
