#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "report/html.h"
#include "report/plot.h"
#include "report/run_log.h"

namespace tern {
namespace {

bool is_loss(const std::string& tag) { return tag == "train/loss" || tag == "eval/held-out/loss"; }

struct Curve {
  Series series;
  size_t every = 1;  // of its points one is drawn
};

// The last point is always there.
Curve curve_of(const RunLog& run, const std::string& tag) {
  const TagSeries all = series_of(run, tag);
  const size_t n = all.steps.size();
  Curve curve{.series = {.name = tag}, .every = std::max<size_t>(1, (n + kPagePoints - 1) / kPagePoints)};
  for (size_t i = (n - 1) % curve.every; i < n; i += curve.every) {
    curve.series.x.push_back(static_cast<double>(all.steps[i]));
    curve.series.y.push_back(all.values[i]);
  }
  curve.series.points = curve.series.x.size() < 30;
  return curve;
}

void add_plot(HtmlPage& page, const RunLog& run, const std::string& title, const std::vector<std::string>& tags) {
  LinePlot plot{.title = title, .x = {"step"}, .y = {title}};
  size_t every = 1;
  for (const std::string& tag : tags) {
    Curve curve = curve_of(run, tag);
    every = std::max(every, curve.every);
    curve.series.dashed = tag.starts_with("eval/");
    plot.series.push_back(std::move(curve.series));
  }
  page.svg(svg(plot), every > 1 ? fmt::format("{} by step; of the longest curve one point in {} is drawn", title, every)
                                : title + " by step");
}

}  // namespace

std::string run_page(const RunLog& run, const RunState& state) {
  std::vector<std::string> losses, others;
  for (const MetricRow& row : run.log.rows)
    for (const auto& [tag, value] : row.values) {
      std::vector<std::string>& list = is_loss(tag) ? losses : others;
      if (std::ranges::find(list, tag) == list.end()) list.push_back(tag);
    }
  HtmlPage page(state.title);
  if (state.runs) page.read_again_every(kPageSeconds);
  Table figures{{{"figure"}, {"value", Align::right}}, {}};
  figures.rows.push_back({"step", fmt::format("{} of {}", state.step, state.total_steps)});
  if (state.runs && state.seconds_left) figures.rows.push_back({"time left", format_seconds(*state.seconds_left)});
  for (const std::vector<std::string>* tags : {&losses, &others})
    for (const std::string& tag : *tags) {
      const TagSeries series = series_of(run, tag);
      figures.rows.push_back({tag, fmt::format("{:.6g} at step {}", series.values.back(), series.steps.back())});
    }
  for (const auto& [name, value] : state.facts) figures.rows.push_back({name, value});
  page.paragraph(state.runs
                     ? fmt::format("This run goes on. The page is written anew about every {} seconds.", kPageSeconds)
                 : state.step < state.total_steps ? "This run was stopped at this step."
                                                  : "This run has ended.");
  page.table(figures);
  if (!losses.empty()) add_plot(page, run, "loss", losses);
  for (const std::string& tag : others) add_plot(page, run, tag, {tag});
  if (!state.settings.empty()) {
    page.heading("Settings");
    page.preformatted(state.settings);
  }
  return page.str();
}

}  // namespace tern
