#pragma once
// Calibrations and priced tables, in words and as JSON, as `tern plan calibrate` and `tern plan table` print them.

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

/// The error bar of a plan whose step takes `step_ps`; none if no error is known.
std::optional<PlannedError> planned_error(const Calibration&, int64_t step_ps);
/// A warning that a calibration's errors come from too few runs to say much; "": there is nothing to warn of.
std::string few_words(const Calibration&);
/// A note that a plan under this calibration is priced by another formula than its rows were; "": there is none.
std::string unlike_words(const Calibration&);
Json errors_json(const PredictionErrors&);
std::string errors_words(const PredictionErrors&);
/// The constants, one a line, with their nominal values and bounds.
std::string constants_text(const Constants&);
Json constants_json(const Constants&);

/// A table of runs with predicted times. Entry i of `predicted`, in seconds, belongs to the run rows[i].
struct PricedTable {
  const RunSet& runs;
  std::vector<size_t> rows;
  std::vector<double> predicted;
  std::optional<Calibration> calibration;
};
std::string table_rows_text(const PricedTable&);  // the rows alone
std::string table_report(const PricedTable&);     // with their errors
/// {"rows": [{"line", "model", "run", "predicted", "low", "high", "measured", "error", …}], "unit": "ms", "errors": …}. Times are in milliseconds, as
/// in the files of runs.
Json table_json(const PricedTable&);

}  // namespace tern
