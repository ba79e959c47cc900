#pragma once
// The fit: constants under which priced runs agree with measured ones, robust against rows that nothing explains.

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "calibrate/constants.h"
#include "calibrate/run_price.h"
#include "calibrate/run_set.h"

namespace tern {

struct FitOptions {
  double scale = 0.03;   // of log(predicted / measured): residuals beyond it count ever less (Cauchy)
  int most_rounds = 60;  // of each descent
};

struct Fit {
  Constants constants;
  double objective = 0;
  int rounds = 0;
};

/// Least ½ Σ log(1 + (r/scale)²) + ½ Σ ((z − nominal)/spread)², r = log(predicted/measured), z the constant or its
/// logarithm, within the bounds: Levenberg and Marquardt's steps on weights 1/(1 + (r/scale)²), from the nominal
/// values and from the least squares of all rows; the better end
/// counts. Order: the same bits for the same rows in the same order.
/// Source  Levenberg 1944, Marquardt 1963; Cauchy weights: Holland & Welsch 1977 (all recalled).
/// Errors  usage, for a row without a measured time, or none.
Fit fit_constants(const RunSet&, std::span<const size_t> rows, const FitOptions& = {});

}  // namespace tern
