#include "apps/calibration_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/units.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_words.h"
#include "report/table.h"

namespace tern {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }
std::string seconds_words(double s) {
  return s >= 10 ? fmt::format("{:.2f} s", s) : s >= 1 ? fmt::format("{:.3f} s", s) : fmt::format("{:.2f} ms", 1e3 * s);
}

// Rows with a measured time that `counts`, and what was predicted for them.
struct MeasuredRows {
  std::vector<size_t> rows;
  std::vector<double> predicted;
};
template <class Counts>
MeasuredRows measured_of(const PricedTable& t, const Counts& counts) {
  MeasuredRows m;
  for (size_t k = 0; k < t.rows.size(); ++k) {
    const PublishedRun& r = t.runs.run(t.rows[k]);
    if (r.seconds > 0 && counts(r.use)) m.rows.push_back(t.rows[k]), m.predicted.push_back(t.predicted[k]);
  }
  return m;
}
MeasuredRows with_error(const PricedTable& t) {
  return measured_of(t, [](RunUse use) { return use != RunUse::pair; });
}
MeasuredRows to_score(const PricedTable& t) {
  return measured_of(t, [](RunUse use) { return use == RunUse::score; });
}
Ordered pairs_of(const PricedTable& t) {
  const MeasuredRows all = measured_of(t, [](RunUse) { return true; });
  return ordered(t.runs, all.rows, all.predicted);
}

}  // namespace

std::optional<PlannedError> planned_error(const Calibration& c, int64_t step_ps) {
  if (c.left_out.rows == 0) return std::nullopt;
  const ErrorBar bar = error_bar(c, static_cast<double>(step_ps));
  const auto whole = [](double ps) { return static_cast<int64_t>(std::min(std::round(ps), 0x1p62)); };
  return PlannedError{.software = make_printable(c.software),
                      .rows = static_cast<int64_t>(c.left_out.rows),
                      .low_ps = std::min(step_ps, whole(bar.low)),
                      .high_ps = std::max(step_ps, whole(bar.high)),
                      .median = c.left_out.median};
}

std::string few_words(const Calibration& c) {
  constexpr size_t kFew = 5;
  if (c.left_out.rows == 0 || c.left_out.rows >= kFew) return "";
  return fmt::format("the error bar rests on {} left out: it says little of others; calibrate with more runs",
                     counted(static_cast<int64_t>(c.left_out.rows), "run"));
}

std::string unlike_words(const Calibration& c) {
  if (c.traits) return "";
  return "the calibration does not say how its runs computed (products, gradient sums, sequence parallelism, sums of "
         "input gradients, gathers of weights, context ranks' exchange: the "
         "file is old, or its runs differ): the plan is priced as a table's row that says none of it, so the error bar "
         "may not hold; calibrate anew, by rows that agree";
}

Json errors_json(const PredictionErrors& e) {
  return {{"rows", e.rows},
          {"median", e.median},
          {"mean", e.mean},
          {"ninth", e.ninth},
          {"most", e.most},
          {"least_ratio", e.least_ratio},
          {"most_ratio", e.most_ratio}};
}
std::string errors_words(const PredictionErrors& e) {
  return fmt::format("median {}, mean {}, nine in ten below {}, most {} ({} rows)", percent(e.median), percent(e.mean),
                     percent(e.ninth), percent(e.most), e.rows);
}

std::string constants_text(const Constants& c) {
  Table t{
      {{"constant"}, {"value", Align::right}, {"unit"}, {"before", Align::right}, {"bounds", Align::right}, {"what"}},
      {}};
  for (size_t k = 0; k < kNumConstants; ++k) {
    const ConstantSpec& s = constant_specs()[k];
    t.rows.push_back({std::string(s.name), fmt::format("{:.4g}", c[k]), std::string(s.unit),
                      fmt::format("{:g}", s.nominal), fmt::format("{:g} to {:g}", s.least, s.most),
                      std::string(s.meaning)});
  }
  return table_text(t);
}
Json constants_json(const Constants& c) {
  Json out = Json::object();
  for (size_t k = 0; k < kNumConstants; ++k) {
    const ConstantSpec& s = constant_specs()[k];
    out[std::string(s.name)] = {
        {"value", c[k]}, {"unit", std::string(s.unit)}, {"nominal", s.nominal}, {"least", s.least}, {"most", s.most}};
  }
  return out;
}

std::string table_rows_text(const PricedTable& t) {
  Table out{{{"line", Align::right},
             {"model"},
             {"run"},
             {"predicted", Align::right},
             {"measured", Align::right},
             {"error", Align::right},
             {""}},
            {}};
  for (size_t k = 0; k < t.rows.size(); ++k) {
    const PublishedRun& r = t.runs.run(t.rows[k]);
    out.rows.push_back({fmt::format("{}", r.line), make_printable(model_words(r)), run_words(r),
                        seconds_words(t.predicted[k]), r.seconds > 0 ? seconds_words(r.seconds) : "",
                        r.seconds > 0 ? fmt::format("{:+.1f} %", 100 * (t.predicted[k] / r.seconds - 1)) : "",
                        r.use == RunUse::fit ? "" : std::string(name_of(r.use))});
  }
  return table_text(out);
}

std::string table_report(const PricedTable& t) {
  std::string text = table_rows_text(t);
  const MeasuredRows all = with_error(t), scored = to_score(t);
  if (!all.rows.empty())
    text += fmt::format("\nerrors     {}\n", errors_words(errors_of(t.runs, all.rows, all.predicted)));
  if (!scored.rows.empty() && scored.rows.size() < all.rows.size())
    text += fmt::format("to score   {}\n", errors_words(errors_of(t.runs, scored.rows, scored.predicted)));
  const Ordered o = pairs_of(t);
  if (o.pairs)
    text += fmt::format("in order   {} of {} pairs of one job, more than 5 % apart ({:.3f})\n", o.right, o.pairs,
                        o.share());
  if (t.calibration && t.calibration->left_out.rows)
    text += fmt::format("calibrated by {} runs of {}; on rows left out by {}: {}\n", t.calibration->rows,
                        make_printable(t.calibration->software), name_of(t.calibration->folds),
                        errors_words(t.calibration->left_out));
  return text;
}

Json table_json(const PricedTable& t) {
  Json rows = Json::array();
  for (size_t k = 0; k < t.rows.size(); ++k) {
    const PublishedRun& r = t.runs.run(t.rows[k]);
    Json row{{"line", r.line},
             {"model", make_printable(model_words(r))},
             {"run", run_words(r)},
             {"predicted", 1e3 * t.predicted[k]}};
    if (t.calibration && t.calibration->left_out.rows) {
      const ErrorBar bar = error_bar(*t.calibration, t.predicted[k]);
      row["low"] = 1e3 * bar.low, row["high"] = 1e3 * bar.high;
    }
    row["measured"] = r.seconds > 0 ? Json(1e3 * r.seconds) : Json(nullptr);
    if (r.seconds > 0) row["error"] = t.predicted[k] / r.seconds - 1;
    row["use"] = std::string(name_of(r.use));
    rows.push_back(std::move(row));
  }
  Json out{{"unit", "ms"}, {"rows", std::move(rows)}};
  const MeasuredRows all = with_error(t), scored = to_score(t);
  if (!all.rows.empty()) out["errors"] = errors_json(errors_of(t.runs, all.rows, all.predicted));
  const Ordered o = pairs_of(t);
  out["pairs"] = {{"pairs", o.pairs}, {"in_order", o.right}};
  if (!scored.rows.empty()) out["scored_errors"] = errors_json(errors_of(t.runs, scored.rows, scored.predicted));
  if (t.calibration) out["left_out"] = errors_json(t.calibration->left_out);
  return out;
}

}  // namespace tern
