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

/// How the fit is made.
struct FitOptions {
  double scale = 0.03;   // of log(predicted / measured): larger residuals count ever less (Cauchy)
  int most_rounds = 60;  // of each descent
};

/// The constants found.
struct Fit {
  Constants constants;
  double objective = 0;
  int rounds = 0;
};

/// The constants within their bounds for which ½ Σ log(1 + (r/scale)²) + ½ Σ ((z − nominal)/spread)² is least, with
/// r = log(predicted/measured) and z the constant or its logarithm. Levenberg and Marquardt's steps on weights
/// 1/(1 + (r/scale)²) are made twice, from the nominal values and from the least squares of all rows; the better end
/// counts. Order: the same bits for the same rows in the same order.
/// Source  Levenberg 1944, Marquardt 1963; Cauchy weights: Holland & Welsch 1977 (all recalled).
/// Errors  usage, for a row without a measured time, or none.
Fit fit_constants(const RunSet&, std::span<const size_t> rows, const FitOptions& = {});

}  // namespace tern
