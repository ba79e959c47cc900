// How well the cost model predicts published runs it was not fitted to: the targets of the planner's cost model.
//
//   calibration MULTI.csv SINGLE.csv [MACHINE]      columns as docs/calibration.md says; MACHINE: a100-80g

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "calibrate/folds.h"
#include "calibrate/prediction_scores.h"
#include "calibrate/run_set.h"
#include "hardware/machines.h"

namespace {

using namespace tern;

void print_constants(const Fit& fit) {
  for (size_t k = 0; k < kNumConstants; ++k)
    std::printf("  %s %.4g %s\n", std::string(constant_specs()[k].name).c_str(), fit.constants[k],
                std::string(constant_specs()[k].unit).c_str());
}

void print_errors(const char* what, const PredictionErrors& e) {
  std::printf("%-34s median %5.2f %%  mean %5.2f %%  nine in ten below %5.2f %%  most %5.1f %%\n", what, 100 * e.median,
              100 * e.mean, 100 * e.ninth, 100 * e.most);
}

// The predictions of a part of the rows.
std::vector<double> part_of(const std::vector<size_t>& rows, const std::vector<double>& predicted,
                            const std::vector<size_t>& part) {
  std::vector<double> out;
  for (const size_t i : part)
    out.push_back(predicted[static_cast<size_t>(std::find(rows.begin(), rows.end(), i) - rows.begin())]);
  return out;
}

double mean_regret(const std::vector<Regret>& picks) {
  double sum = 0;
  for (const Regret& r : picks) sum += r.regret;
  return sum / static_cast<double>(std::max<size_t>(picks.size(), 1));
}
double worst_regret(const std::vector<Regret>& picks) {
  double worst = 0;
  for (const Regret& r : picks) worst = std::max(worst, r.regret);
  return worst;
}

void by_seeds(const RunSet& runs, const std::vector<size_t>& rows, int parts) {
  constexpr int kSeeds = 20;
  double median = 0, mean = 0, order = 0, worst = 0, regret = 0;
  int bad_seeds = 0;
  Ordered within;  // pairs of rows that one fit predicts
  std::vector<Regret> within_picks;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const auto folds = folds_of(runs, rows, FoldBy::rows, static_cast<uint64_t>(seed), parts);
    const auto predicted = left_out(runs, rows, folds);
    const PredictionErrors e = errors_of(runs, rows, predicted);
    median += e.median / kSeeds, mean += e.mean / kSeeds, order += ordered(runs, rows, predicted).share() / kSeeds;
    const auto picks = regrets(runs, rows, predicted);
    regret += mean_regret(picks) / kSeeds, worst = std::max(worst, worst_regret(picks));
    bad_seeds += worst_regret(picks) > 0.1;
    for (const auto& fold : folds) {
      const std::vector<double> part = part_of(rows, predicted, fold);
      const Ordered o = ordered(runs, fold, part);
      within.pairs += o.pairs, within.right += o.right;
      for (const Regret& r : regrets(runs, fold, part)) within_picks.push_back(r);
    }
  }
  std::printf(
      "20 seeds, %d folds                  median %5.2f %%  mean %5.2f %%  pairs in order %.3f  regret mean %.2f %% "
      "worst %.2f %%, above 10 %% in %d seeds\n",
      parts, 100 * median, 100 * mean, order, 100 * regret, 100 * worst, bad_seeds);
  const auto bad =
      std::count_if(within_picks.begin(), within_picks.end(), [](const Regret& r) { return r.regret > 0.1; });
  std::printf(
      "  each fold by itself: pairs in order %.3f  regret mean %.2f %% worst %.2f %%, above 10 %% in %d of %zu\n",
      within.share(), 100 * mean_regret(within_picks), 100 * worst_regret(within_picks), static_cast<int>(bad),
      within_picks.size());
}

// How many pairs the three rows that most wrongly ordered pairs hold cost: with every other row predicted exactly, and
// with those three predicted exactly.
void by_three_rows(const RunSet& runs, const std::vector<size_t>& rows, const std::vector<double>& fitted) {
  const Ordered now = ordered(runs, rows, fitted);
  std::vector<size_t> three;
  const auto holds = [&](const std::pair<size_t, size_t>& pair) {
    const auto in = [&](size_t i) { return std::find(three.begin(), three.end(), i) != three.end(); };
    return in(pair.first) || in(pair.second);
  };
  while (three.size() < 3) {
    std::map<size_t, int> wrong;
    for (const auto& pair : now.wrong)
      if (!holds(pair)) ++wrong[pair.first], ++wrong[pair.second];
    if (wrong.empty()) return;
    const auto fewer = [](const auto& a, const auto& b) { return a.second < b.second; };
    three.push_back(std::max_element(wrong.begin(), wrong.end(), fewer)->first);
  }
  std::vector<double> others = fitted, those = fitted;
  for (size_t k = 0; k < rows.size(); ++k) {
    const bool one = std::find(three.begin(), three.end(), rows[k]) != three.end();
    (one ? those : others)[k] = runs.run(rows[k]).seconds;
  }
  std::printf("fitted to all: pairs in order %.3f, %zu wrong, %d with lines %d, %d or %d; every other row exact %.3f; ",
              now.share(), now.wrong.size(), static_cast<int>(std::count_if(now.wrong.begin(), now.wrong.end(), holds)),
              runs.run(three[0]).line, runs.run(three[1]).line, runs.run(three[2]).line,
              ordered(runs, rows, others).share());
  std::printf("those three exact %.3f\n", ordered(runs, rows, those).share());
}

// What predictions that are each run's usual time to the digit would score, if what the fit leaves is chance: the
// fitted times are taken for the truth, and each is measured with the error of a row drawn anew.
void by_chance(const RunSet& runs, const std::vector<size_t>& rows, const std::vector<double>& fitted) {
  constexpr size_t kDraws = 400;
  std::vector<double> share, worst, mean;
  for (size_t draw = 0; draw < kDraws; ++draw) {
    const RngKey key{draw, hash_name("chance")};
    std::vector<PublishedRun> drawn;
    for (size_t k = 0; k < rows.size(); ++k) {
      const auto other = static_cast<size_t>(random_u64(key, k) % rows.size());
      drawn.push_back(runs.run(rows[k]));
      drawn.back().seconds = fitted[k] * runs.run(rows[other]).seconds / fitted[other];
    }
    const RunSet again(drawn, runs.cluster(), "drawn");
    share.push_back(ordered(again, again.all(), fitted).share());
    const auto picks = regrets(again, again.all(), fitted);
    worst.push_back(worst_regret(picks)), mean.push_back(mean_regret(picks));
  }
  for (auto* x : {&share, &worst, &mean}) std::sort(x->begin(), x->end());
  const auto at = [](const std::vector<double>& x, double q) { return x[static_cast<size_t>(q * kDraws)]; };
  const auto part = [](const std::vector<double>& x, auto holds) {
    return static_cast<double>(std::count_if(x.begin(), x.end(), holds)) / kDraws;
  };
  std::printf(
      "exact but for the errors of %zu rows, drawn %zu times: pairs in order %.3f (nine in ten %.3f to %.3f; at least "
      "0.9 in %.2f); ",
      rows.size(), kDraws, at(share, 0.5), at(share, 0.05), at(share, 0.95),
      part(share, [](double x) { return x >= 0.9; }));
  std::printf("worst regret %.1f %% (at most 10 in %.2f), mean regret %.1f %%\n", 100 * at(worst, 0.5),
              part(worst, [](double x) { return x <= 0.1; }), 100 * at(mean, 0.5));
}

void tell(const RunSet& runs, bool single) {
  const std::vector<size_t> rows = runs.fitted();
  const Fit fit = fit_constants(runs, rows);
  std::printf("\n%zu rows, %d rounds, objective %.3f\n", rows.size(), fit.rounds, fit.objective);
  print_constants(fit);
  const auto fitted = runs.seconds(rows, fit.constants);
  print_errors("rows fitted to", errors_of(runs, rows, fitted));
  if (!single) {
    by_seeds(runs, rows, 2);
    by_seeds(runs, rows, 5);
    by_three_rows(runs, rows, fitted);
    by_chance(runs, rows, fitted);
  }
  const auto by_layout = left_out(runs, rows, folds_of(runs, rows, FoldBy::layout, 0, 2));
  print_errors("a layout left out", errors_of(runs, rows, by_layout));
  const auto models = folds_of(runs, rows, FoldBy::model, 0, 2);
  const auto by_model = left_out(runs, rows, models);
  for (const auto& fold : models) {
    print_errors(("without width " + std::to_string(runs.run(fold.front()).width)).c_str(),
                 errors_of(runs, fold, part_of(rows, by_model, fold)));
  }
  print_errors("a model left out, all rows", errors_of(runs, rows, by_model));
  const Ordered o = ordered(runs, rows, by_model);
  std::printf("a model left out: pairs in order %.3f of %lld\n", o.share(), static_cast<long long>(o.pairs));
  for (const Regret& r : regrets(runs, rows, by_model))
    std::printf("  regret %s %.2f %%\n", r.job.c_str(), 100 * r.regret);
  if (single) return;
  for (size_t k = 0; k < rows.size(); ++k) {
    const PublishedRun& r = runs.run(rows[k]);
    std::printf("%5d width %lld %-60s %.3f s fitted %+.1f %% left out %+.1f %%\n", r.line,
                static_cast<long long>(r.width), to_string(r.choice).c_str(), r.seconds,
                100 * (fitted[k] / r.seconds - 1), 100 * (by_layout[k] / r.seconds - 1));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::puts("calibration MULTI.csv SINGLE.csv [MACHINE]");
    return 2;
  }
  try {
    const Cluster cluster = find_cluster(argc > 3 ? argv[3] : "a100-80g");
    tell(RunSet(read_runs(argv[1]), cluster, argv[1]), false);
    tell(RunSet(read_runs(argv[2]), cluster, argv[2]), true);
  } catch (const Error& e) {
    std::fprintf(stderr, "calibration: %s\n", e.what());
    return 1;
  }
  return 0;
}
