#include "calibrate/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "calibrate/a100_testing.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_set.h"
#include "hardware/machines.h"
#include "spec/recompute.h"

namespace tern {
namespace {

std::vector<PublishedRun> grid() {
  std::vector<PublishedRun> runs;
  for (const int64_t width : {2048, 4096})
    for (const int64_t t : {1, 2, 8, 16})
      for (const int p : {1, 4})
        for (const int64_t b : {1, 4}) {
          PublishedRun r{.line = static_cast<int>(runs.size()) + 2, .vocabulary = 51200, .width = width, .heads = 32};
          r.layers = 16;
          r.choice = {.mesh = {.tensor = t, .data = 32 / t}, .num_stages = p, .micro_batch = b};
          r.choice.num_micro = 16 / b;
          r.job = {.batch = 16 * r.choice.mesh.data, .seq = 2048, .dtype = DType::f16, .gradients = DType::f16};
          r.strategy.recompute = Recompute::full;
          r.seconds = 1;
          runs.push_back(r);
        }
  return runs;
}

// Runs that take what the model says under constants that are not the nominal ones.
std::vector<PublishedRun> made_by(const Constants& truth, double noise, uint64_t seed) {
  std::vector<PublishedRun> runs = grid();
  const RunSet set(runs, a100(), "made");
  const std::vector<double> s = set.seconds(set.all(), truth);
  for (size_t i = 0; i < runs.size(); ++i) runs[i].seconds = s[i] * std::exp(noise * random_normal({seed, 2}, i));
  return runs;
}

Constants truth() {
  Constants c = nominal_constants();
  c[0] = 0.7, c[1] = 200, c[4] = 30, c[5] = 3, c[8] = 0.6, c[10] = 0.4;  // top, rows, score_bytes, passes, links
  return c;
}

TEST(Fit, FindsTheConstantsThatMadeTheRuns) {
  const RunSet runs(made_by(truth(), 0, 1), a100(), "made");
  const Fit fit = fit_constants(runs, runs.all());
  EXPECT_LT(errors_of(runs, runs.all(), runs.seconds(runs.all(), fit.constants)).most, 0.01);
  EXPECT_NEAR(fit.constants[0], 0.7, 0.03);
  EXPECT_NEAR(fit.constants[10], 0.4, 0.04);  // drawn towards the nominal 0.6 by its prior
}

TEST(Fit, RowsThatNothingExplainsMoveItLittle) {
  std::vector<PublishedRun> made = made_by(truth(), 0.01, 3);
  for (const size_t i : {3U, 11U, 20U}) made[i].seconds *= 1.6;
  const RunSet runs(made, a100(), "made");
  const Fit fit = fit_constants(runs, runs.all());
  EXPECT_LT(errors_of(runs, runs.all(), runs.seconds(runs.all(), fit.constants)).median, 0.015);
}

TEST(Fit, ConstantsArePhysicalWhateverTheRowsSay) {
  for (const double factor : {0.05, 20.0}) {  // faster than the data sheet allows, and far slower
    std::vector<PublishedRun> made = made_by(truth(), 0.3, 5);
    for (PublishedRun& r : made) r.seconds *= factor;
    const RunSet runs(made, a100(), "made");
    const Constants c = fit_constants(runs, runs.all(), {.most_rounds = 10}).constants;
    for (size_t k = 0; k < kNumConstants; ++k) {
      EXPECT_GE(c[k], constant_specs()[k].least) << constant_specs()[k].name;
      EXPECT_LE(c[k], constant_specs()[k].most) << constant_specs()[k].name;
    }
    const Cluster fitted = with_constants(a100(), DType::f16, c);
    EXPECT_LE(fitted.nodes[0].link.bandwidth, fitted.nodes[0].link.nominal);
    EXPECT_LE(fitted.nodes[0].network, fitted.nodes[0].network_nominal);
    EXPECT_LE(fitted.devices[0].memory_bandwidth, fitted.devices[0].memory_nominal);
    EXPECT_LE(fitted.devices[0].matmul.back().top, 1);
    EXPECT_GT(fitted.devices[0].matmul.back().top, 0);
  }
}

TEST(Constants, EachMovesSomeRun) {
  const RunSet runs(grid(), a100(), "made");
  Constants c = truth();
  c[7] = 2;    // whole_head
  c[6] = 500;  // issue: slow enough to be what small runs wait for
  const std::vector<double> before = runs.seconds(runs.all(), c);
  for (size_t k = 0; k < kNumConstants; ++k) {
    Constants other = c;
    other[k] = c[k] > 0 ? c[k] * 0.9 : 1;
    EXPECT_NE(runs.seconds(runs.all(), other), before) << constant_specs()[k].name;
  }
}

TEST(Fit, SameRowsSameBits) {
  const RunSet runs(made_by(truth(), 0.02, 7), a100(), "made");
  EXPECT_EQ(fit_constants(runs, runs.all()).constants, fit_constants(runs, runs.all()).constants);
}

TEST(Fit, RefusesNothingToFit) {
  std::vector<PublishedRun> made = grid();
  made.resize(1), made[0].seconds = 0;
  const RunSet runs(made, a100(), "made");
  EXPECT_TRUE(runs.fitted().empty());
  EXPECT_THROW(fit_constants(runs, runs.fitted()), Error);
  EXPECT_THROW(fit_constants(runs, runs.all()), Error);
}

TEST(Folds, LeaveOutEachRowOnceAndTogetherWhatBelongsTogether) {
  const RunSet runs(grid(), a100(), "made");
  for (const FoldBy by : {FoldBy::rows, FoldBy::layout, FoldBy::model}) {
    std::vector<int> seen(runs.size(), 0);
    const auto folds = folds_of(runs, runs.all(), by, 3, 5);
    EXPECT_EQ(folds.size(), by == FoldBy::rows ? 5u : by == FoldBy::layout ? 8u : 2u);
    for (const auto& fold : folds)
      for (const size_t i : fold) {
        ++seen[i];
        EXPECT_TRUE(by != FoldBy::layout || runs.run(i).choice.mesh == runs.run(fold[0]).choice.mesh);
        EXPECT_TRUE(by != FoldBy::model || runs.run(i).width == runs.run(fold[0]).width);
      }
    EXPECT_EQ(seen, std::vector<int>(runs.size(), 1));
  }
  EXPECT_NE(folds_of(runs, runs.all(), FoldBy::rows, 1, 2), folds_of(runs, runs.all(), FoldBy::rows, 2, 2));
}

TEST(Folds, ErrorsPairsAndRegretAreWhatTheyAreCalled) {
  std::vector<PublishedRun> made = grid();
  made.assign(4, made[0]);
  for (size_t i = 0; i < 4; ++i) made[i].seconds = static_cast<double>(i) + 1;
  const RunSet runs(made, a100(), "made");
  const std::vector<double> predicted{1.1, 1.0, 3.0, 5.0};  // +10 %, −50 %, right, +25 %
  const PredictionErrors e = errors_of(runs, runs.all(), predicted);
  EXPECT_NEAR(e.median, 0.175, 1e-12);
  EXPECT_NEAR(e.mean, 0.2125, 1e-12);
  EXPECT_NEAR(e.most, 0.5, 1e-12);
  EXPECT_NEAR(e.ninth, 0.5, 1e-12);
  EXPECT_NEAR(e.least_ratio, 0.8, 1e-12);
  EXPECT_NEAR(e.most_ratio, 2.0, 1e-12);
  const Ordered o = ordered(runs, runs.all(), predicted);
  EXPECT_EQ(o.pairs, 6);
  EXPECT_EQ(o.right, 5);
  ASSERT_EQ(o.wrong.size(), 1u);
  EXPECT_EQ(o.wrong[0], (std::pair<size_t, size_t>{0, 1}));
  const auto r = regrets(runs, runs.all(), predicted);
  ASSERT_EQ(r.size(), 1u);
  EXPECT_NEAR(r[0].regret, 1.0, 1e-12);  // the second is picked, which takes twice the first's time
}

TEST(Folds, ATieIsNotInOrderHoweverTheRowsLie) {
  std::vector<PublishedRun> made = grid();
  made.assign(3, made[0]);
  for (size_t i = 0; i < 3; ++i) made[i].seconds = static_cast<double>(i) + 1;
  const std::vector<double> predicted{2.0, 2.0, 2.0};
  for (int turn = 0; turn < 2; ++turn) {
    const RunSet runs(made, a100(), "made");
    const Ordered o = ordered(runs, runs.all(), predicted);
    EXPECT_EQ(o.pairs, 3);
    EXPECT_EQ(o.right, 0);
    ASSERT_EQ(regrets(runs, runs.all(), predicted).size(), 1u);
    EXPECT_NEAR(regrets(runs, runs.all(), predicted)[0].regret, 2.0, 1e-12);  // any of them may be the pick
    std::reverse(made.begin(), made.end());
  }
}

// Rows of another depth, sequence, batch, number of devices or precision of products answer another question.
TEST(Folds, PairsAndRegretAreOfOneJob) {
  const auto make = [](const auto& change) {
    std::vector<PublishedRun> made = grid();
    made.resize(2);
    made[0].seconds = 1, made[1].seconds = 2;
    change(made[1]);
    const RunSet runs(made, a100(), "made");
    const std::vector<double> predicted{2.0, 1.0};
    EXPECT_EQ(regrets(runs, runs.all(), predicted).size(), ordered(runs, runs.all(), predicted).pairs ? 1u : 0u);
    return ordered(runs, runs.all(), predicted).pairs;
  };
  EXPECT_EQ(make([](PublishedRun&) {}), 1);
  EXPECT_EQ(make([](PublishedRun& r) { r.choice.schedule = PipelineSchedule::gpipe, r.strategy.zero = 1; }), 1);
  EXPECT_EQ(make([](PublishedRun& r) { r.layers = 24; }), 0);
  EXPECT_EQ(make([](PublishedRun& r) { r.heads = 64; }), 0);
  EXPECT_EQ(make([](PublishedRun& r) { r.job.seq = 1024; }), 0);
  EXPECT_EQ(make([](PublishedRun& r) { r.job.batch *= 2, r.choice.num_micro *= 2; }), 0);
  EXPECT_EQ(make([](PublishedRun& r) { r.choice.mesh.data /= 2, r.choice.num_micro *= 2; }), 0);
  EXPECT_EQ(make([](PublishedRun& r) { r.traits.product_rate = 2; }), 0);
}

}  // namespace
}  // namespace tern
