#pragma once
// Predictions of runs that a fit has not seen: rows are left out in folds.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit.h"
#include "calibrate/run_set.h"

namespace tern {

/// Which rows are left out together.
enum class FoldBy : uint8_t { rows, layout, model };
std::string_view name_of(FoldBy);  // "rows", "layout", "model"
/// Cuts rows into folds. By rows: `parts` parts of a shuffle of that seed; by layout: one fold for each (tensor,
/// context, data, expert, expert tensor, pipeline); by model: one for each (model, width).
std::vector<std::vector<size_t>> folds_of(const RunSet&, std::span<const size_t> rows, FoldBy, uint64_t seed,
                                          int parts);

/// Predicted seconds of each of `rows`, by constants fitted to the folds that it is not in. Shapes: as rows.
std::vector<double> left_out(const RunSet&, std::span<const size_t> rows, const std::vector<std::vector<size_t>>& folds,
                             const FitOptions& = {});

}  // namespace tern
