// A ratchet: how good the cost model is on published runs that are not part of this tree, so that it gets no worse.
// A target that it reaches is the limit; where it misses one, the limit lies just beyond what was measured.
// docs/calibration.md has the figures, and the reasons of what is missed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/source_dir_testing.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_set.h"
#include "hardware/machines.h"

namespace tern {
namespace {

std::string data_folder() {
  const char* data = std::getenv("TERN_DATA");
  const std::string folder = std::string(data ? data : "") + "/planner/vtrain/";
  return data && std::filesystem::exists(folder + "measured_multi.csv") ? folder : "";
}

#define TERN_NEED_RUNS()                    \
  const std::string folder = data_folder(); \
  if (folder.empty()) GTEST_SKIP() << "TERN_DATA has no planner/vtrain: the published runs are not here"

RunSet runs_of(const std::string& path) {
  return RunSet(read_runs(path), find_cluster(source_dir() + "/examples/hardware/a100-80g-4hdr.toml"), path);
}

// Targets: median ≤ 4 %, mean ≤ 7 %, mean regret ≤ 4 %. Missed: pairs ≥ 0.9, worst regret ≤ 10 %.
TEST(RatchetSlow, HalvesOfTheRunsOnManyNodes) {
  TERN_NEED_RUNS();
  const RunSet runs = runs_of(folder + "measured_multi.csv");
  const auto rows = runs.all();
  double median = 0, mean = 0, pairs = 0, regret = 0, worst = 0;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const auto predicted = left_out(runs, rows, folds_of(runs, rows, FoldBy::rows, seed, 2));
    const PredictionErrors e = errors_of(runs, rows, predicted);
    median += e.median / 20, mean += e.mean / 20, pairs += ordered(runs, rows, predicted).share() / 20;
    const auto picks = regrets(runs, rows, predicted);
    for (const Regret& r : picks) {
      regret += r.regret / 20 / static_cast<double>(picks.size());
      worst = std::max(worst, r.regret);
    }
  }
  EXPECT_LE(median, 0.04);
  EXPECT_LE(mean, 0.07);
  EXPECT_LE(regret, 0.04);
  EXPECT_GE(pairs, 0.83);   // measured 0.836
  EXPECT_LE(worst, 0.116);  // measured 0.1146
}

// Target: ≤ 13 % over all rows left out. Missed by width 3072 alone, at 14.6 %.
TEST(RatchetSlow, AModelLeftOut) {
  TERN_NEED_RUNS();
  const RunSet runs = runs_of(folder + "measured_multi.csv");
  const auto rows = runs.all();
  const auto folds = folds_of(runs, rows, FoldBy::model, 0, 2);
  const auto predicted = left_out(runs, rows, folds);
  EXPECT_LE(errors_of(runs, rows, predicted).mean, 0.13);
  for (const auto& fold : folds) {
    std::vector<double> part;
    for (const size_t i : fold) part.push_back(predicted[i]);
    EXPECT_LE(errors_of(runs, fold, part).mean, runs.run(fold[0]).width == 3072 ? 0.155 : 0.13);
  }
  for (const Regret& r : regrets(runs, rows, predicted)) EXPECT_LE(r.regret, 0.04) << r.job;
}

TEST(RatchetSlow, LayoutsLeftOutOnOneNode) {
  TERN_NEED_RUNS();
  const RunSet runs = runs_of(folder + "measured_single.csv");
  const auto rows = runs.all();
  const auto predicted = left_out(runs, rows, folds_of(runs, rows, FoldBy::layout, 0, 2));
  EXPECT_LE(errors_of(runs, rows, predicted).mean, 0.07);
}

}  // namespace
}  // namespace tern
