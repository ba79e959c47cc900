#include "train/best_evaluation.h"

#include "report/metrics_log.h"

namespace tern {

bool BestEvaluation::take(int64_t at_step, double held_out_loss) {
  if (!(held_out_loss < loss)) {
    ++since;
    return false;
  }
  step = at_step, loss = held_out_loss, since = 0;
  return true;
}

BestEvaluation best_of_log(Io& io, const std::string& logs, int64_t step) {
  BestEvaluation best;
  const std::string path = join_path(logs, "metrics.jsonl");
  if (!io.stat(path)) return best;
  for (const MetricRow& row : parse_metrics(io.read(path), path).rows)
    for (const auto& [tag, value] : row.values)
      if (row.step <= step && tag == "eval/held-out/loss") best.take(row.step, value);
  return best;
}

}  // namespace tern
