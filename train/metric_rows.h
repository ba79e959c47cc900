#pragma once
// The rows of a run's log: what of a step is written, and at which steps there is an evaluation.

#include <optional>
#include <string>

#include "base/io.h"
#include "report/metrics_log.h"
#include "train/settings.h"
#include "train/trainer.h"

namespace tern {

/// Whether the held-out data are evaluated after this step.
bool evaluates_at(const TrainSettings&, int64_t step);

MetricRow row_of(const StepReport&);

/// The row of the last step if a stop ended its evaluation: it lacks the evaluation and is to be written again with it.
std::optional<MetricRow> row_without_evaluation(const TrainSettings&, Io&, const std::string& logs, int64_t step);

}  // namespace tern
