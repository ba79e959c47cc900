#pragma once
// How well a fit predicts what it has not seen: folds, errors, pairs in order, regret of the best pick.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/fit.h"

namespace tern {

/// How rows are left out together.
enum class FoldBy : uint8_t { rows, layout, model };
std::string_view name_of(FoldBy);  // "rows", "layout", "model"
/// Folds by rows: `parts` parts of a shuffle of that seed; by layout: one for each (tensor, context, data, expert, expert tensor,
/// pipeline); by model: one for each (model, width).
std::vector<std::vector<size_t>> folds_of(const RunSet&, std::span<const size_t> rows, FoldBy, uint64_t seed,
                                          int parts);

/// Seconds of each of `rows`, by constants fitted to the other folds. Shapes: as rows.
std::vector<double> left_out(const RunSet&, std::span<const size_t> rows, const std::vector<std::vector<size_t>>& folds,
                             const FitOptions& = {});

struct Errors {
  size_t rows = 0;
  double median = 0, mean = 0, ninth = 0, most = 0;  // of |predicted/measured − 1|; ninth: nine in ten are below
  double least_ratio = 1,
         most_ratio = 1;  // of measured/predicted: 19 in 20 are at least, at most that; below 20 rows all
};
Errors errors_of(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted);

/// Pairs of runs of one job (job_words) whose times are more than `apart` apart, and how many of them are predicted in
/// order; a tie is not. Order: the counts do not depend on that of the rows.
struct Ordered {
  int64_t pairs = 0, right = 0;
  std::vector<std::pair<size_t, size_t>> wrong;  // rows
  double share() const { return pairs ? static_cast<double>(right) / static_cast<double>(pairs) : 1; }
};
Ordered ordered(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted, double apart = 0.05);

/// Of each job with two rows or more: the measured time of the run that was predicted fastest, over the least measured time,
/// minus 1. Of runs predicted alike the slowest counts.
struct Regret {
  std::string job;
  double regret = 0;
};
std::vector<Regret> regrets(const RunSet&, std::span<const size_t> rows, std::span<const double> predicted);

/// "width 8192, 48 layers" or the preset's name.
std::string model_words(const PublishedRun&);
/// What may be compared, as it is what a planner chooses among: model, sequence, batch, devices, products.
/// "width 8192, 48 layers, 1536 of 2048 tokens on 512 devices".
std::string job_words(const PublishedRun&);

}  // namespace tern
