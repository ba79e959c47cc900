#pragma once
// A calibration and priced tables in words and as JSON, as `tern plan calibrate` and `tern plan table` print them.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "calibrate/calibration_file.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_set.h"
#include "plan/plan.h"

namespace tern {

/// A plan's error bar; nothing if no error is known.
std::optional<PlannedError> planned_error(const Calibration&, int64_t step_ps);
/// Why a calibration's errors say little; "" if there is no such reason.
std::string few_words(const Calibration&);
Json errors_json(const PredictionErrors&);
std::string errors_words(const PredictionErrors&);
/// Constants beside their nominal values and bounds, one a line.
std::string constants_text(const Constants&);
Json constants_json(const Constants&);

/// A priced table. `predicted`: seconds, as `rows`.
struct PricedTable {
  const RunSet& runs;
  std::vector<size_t> rows;
  std::vector<double> predicted;
  std::optional<Calibration> calibration;
};
std::string table_rows_text(const PricedTable&);  // the rows alone
std::string table_report(const PricedTable&);     // with their errors
/// {"rows": [{"line", "model", "run", "predicted", "low", "high", "measured", "error", …}], "unit": "ms", "errors": …}:
/// times in milliseconds, as the tables' own.
Json table_json(const PricedTable&);

}  // namespace tern
