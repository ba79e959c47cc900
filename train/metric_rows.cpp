#include "train/metric_rows.h"

namespace tern {

bool evaluates_at(const TrainSettings& s, int64_t step) {
  return !s.valid_data.empty() && step > 0 &&
         (step == s.schedule.total_steps || (s.eval_every > 0 && step % s.eval_every == 0));
}

MetricRow row_of(const StepReport& r) {
  MetricRow row{.step = r.step,
                .time_s = 0,
                .values = {{"train/lr", r.learning_rate},
                           {"train/grad_norm", r.gradient_norm},
                           {"perf/tokens_per_s", r.tokens_per_s},
                           {"perf/flops_per_s", r.flops_per_s},
                           {"mem/peak_bytes", static_cast<double>(r.memory_bytes)}}};
  if (r.loss) row.values.insert(row.values.begin(), {"train/loss", *r.loss});
  if (r.accuracy) row.values.emplace_back("train/preference_accuracy", *r.accuracy);
  if (r.margin) row.values.emplace_back("train/preference_margin", *r.margin);
  if (r.share_of_peak > 0) row.values.emplace_back("perf/mfu", r.share_of_peak);
  return row;
}

std::optional<MetricRow> row_without_evaluation(const TrainSettings& s, Io& io, const std::string& logs, int64_t step) {
  const std::string path = join_path(logs, "metrics.jsonl");
  if (!evaluates_at(s, step) || !io.stat(path)) return {};
  MetricRow row{.step = step};
  for (MetricRow& logged : parse_metrics(io.read(path), path).rows)
    if (logged.step == step) row = std::move(logged);
  for (const auto& [tag, value] : row.values)
    if (tag.starts_with("eval/held-out/")) return {};
  return row;
}

}  // namespace tern
