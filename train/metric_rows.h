#pragma once
// The rows of a run's log: what a row says of a step, and after which steps there is an evaluation.

#include <optional>
#include <string>

#include "base/io.h"
#include "report/metrics_log.h"
#include "train/settings.h"
#include "train/trainer.h"

namespace tern {

/// Whether the held-out data are evaluated after this step.
bool evaluates_at(const TrainSettings&, int64_t step);

/// A step's row, without an evaluation.
MetricRow row_of(const StepReport&);

/// For a log in the directory `logs` whose last row is that of `step`: if a stop ended this step's evaluation, returns the row, which lacks
/// the evaluation. The resumed run writes the row again, with the evaluation. None: nothing is missing.
std::optional<MetricRow> row_without_evaluation(const TrainSettings&, Io&, const std::string& logs, int64_t step);

}  // namespace tern
