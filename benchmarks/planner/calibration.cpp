// How well the cost model predicts published runs it was not fitted to: the targets of the planner's cost model.
//
//   calibration MULTI.csv SINGLE.csv [MACHINE]      columns as docs/calibration.md says; MACHINE: a100-80g

#include <cmath>
#include <cstdio>
#include <string>

#include "base/error.h"
#include "calibrate/folds.h"
#include "hardware/machines.h"

namespace {

using namespace tern;

void print_constants(const Fit& fit) {
  for (size_t k = 0; k < kNumConstants; ++k)
    std::printf("  %s %.4g %s\n", std::string(constant_specs()[k].name).c_str(), fit.constants[k],
                std::string(constant_specs()[k].unit).c_str());
}

void print_errors(const char* what, const Errors& e) {
  std::printf("%-34s median %5.2f %%  mean %5.2f %%  nine in ten below %5.2f %%  most %5.1f %%\n", what, 100 * e.median,
              100 * e.mean, 100 * e.ninth, 100 * e.most);
}

void by_seeds(const RunSet& runs, const std::vector<size_t>& rows, int parts) {
  double median = 0, mean = 0, order = 0, worst_regret = 0, regret = 0;
  constexpr int kSeeds = 20;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    const auto predicted = left_out(runs, rows, folds_of(runs, rows, FoldBy::rows, static_cast<uint64_t>(seed), parts));
    const Errors e = errors_of(runs, rows, predicted);
    median += e.median / kSeeds, mean += e.mean / kSeeds, order += ordered(runs, rows, predicted).share() / kSeeds;
    const auto picks = regrets(runs, rows, predicted);
    for (const Regret& r : picks) {
      regret += r.regret / kSeeds / static_cast<double>(picks.size());
      worst_regret = std::max(worst_regret, r.regret);
    }
  }
  std::printf(
      "20 seeds, %d folds                  median %5.2f %%  mean %5.2f %%  pairs in order %.3f  regret mean %.2f %% "
      "worst %.2f %%\n",
      parts, 100 * median, 100 * mean, order, 100 * regret, 100 * worst_regret);
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
  }
  const auto by_layout = left_out(runs, rows, folds_of(runs, rows, FoldBy::layout, 0, 2));
  print_errors("a layout left out", errors_of(runs, rows, by_layout));
  const auto models = folds_of(runs, rows, FoldBy::model, 0, 2);
  const auto by_model = left_out(runs, rows, models);
  for (const auto& fold : models) {
    std::vector<double> part;
    for (const size_t i : fold)
      part.push_back(by_model[static_cast<size_t>(std::find(rows.begin(), rows.end(), i) - rows.begin())]);
    print_errors(("without width " + std::to_string(runs.run(fold.front()).width)).c_str(),
                 errors_of(runs, fold, part));
  }
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
