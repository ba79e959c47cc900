// Training steps of one GPU (benchmarks/planner/measured) predicted by rates that were measured beside them; nothing is fitted.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "base/source_dir_testing.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_set.h"
#include "hardware/cluster.h"

namespace tern {
namespace {

PredictionErrors of_steps_on(const std::string& device) {
  const std::string stem = source_dir() + "/benchmarks/planner/measured/" + device, path = stem + "_runs.csv";
  const Cluster rates = read_cluster(stem + "_rates.toml");
  const RunSet runs(read_runs(path), rates, path);
  return errors_of(runs, runs.all(), runs.seconds_on(runs.all(), rates));
}

TEST(MeasuredRates, ForetellStepsOfPyTorchOnOneDevice) {
  const PredictionErrors h100 = of_steps_on("h100"), h200 = of_steps_on("h200");
  EXPECT_EQ(h100.rows, 16u);
  EXPECT_EQ(h200.rows, 16u);
  EXPECT_LE(h100.median, 0.05);
  EXPECT_LE(h200.median, 0.10);
  EXPECT_LE(std::max(h100.most, h200.most), 0.21);
}

}  // namespace
}  // namespace tern
