// tern plan calibrate DATA, tern plan table FILE: the cost model's constants from measured runs, and runs priced with
// them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/calibration_report.h"
#include "apps/common.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/output_place.h"
#include "base/text.h"
#include "calibrate/run_set.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "hardware/machines.h"
#include "hardware/rates.h"
#include "spec/recompute.h"

namespace tern {
namespace {

RunDefaults defaults_of(const Options& o) {
  RunDefaults d{.vocabulary = o.integer("vocabulary"), .dtype = dtype_from_name(o.text("dtype"))};
  for (const PipelineSchedule s : kPipelineSchedules)
    if (name_of(s) == o.text("schedule")) d.schedule = s;
  for (const Recompute r : kRecomputes)
    if (name_of(r) == o.text("recompute")) d.recompute = r;
  return d;
}

bool is_calibration(const std::string& bytes) {
  try {
    parse_calibration(bytes, "");
    return true;
  } catch (const Error&) { return false; }
}

// What is left out together, or by rows where that would leave a single fold.
std::vector<std::vector<size_t>> folds_for(const RunSet& runs, std::span<const size_t> rows, FoldBy& by) {
  if (rows.size() < 2) return {};
  auto folds = folds_of(runs, rows, by, 1, 5);
  if (folds.size() >= 2) return folds;
  if (by != FoldBy::rows) log_info("all fitted rows have one {}: rows are left out instead", name_of(by));
  by = FoldBy::rows;
  return folds_of(runs, rows, by, 1, 5);
}

// The rows that the constants explain least.
std::string worst_rows(const RunSet& runs, std::span<const size_t> rows, std::span<const double> predicted) {
  std::vector<size_t> order(rows.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = k;
  const auto off = [&](size_t k) { return std::abs(predicted[k] / runs.run(rows[k]).seconds - 1); };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return off(a) > off(b); });
  order.resize(std::min<size_t>(order.size(), 10));
  PricedTable t{runs, {}, {}, {}};
  for (const size_t k : order) t.rows.push_back(rows[k]), t.predicted.push_back(predicted[k]);
  return table_rows_text(t);
}

// Constants fitted to runs, and what is known of their errors.
struct Calibrated {
  const RunSet& runs;
  std::vector<size_t> rows;  // that were fitted
  Calibration calibration;
  std::vector<double> fitted,
      unseen;          // seconds of the rows; unseen: each predicted without its fold, empty if there is one row
  PricedTable scored;  // rows that the file keeps apart to judge by
};

Calibrated calibrate(const Options& o, const RunSet& runs, const Cluster& cluster) {
  const DeviceType device = machine_of(cluster, 0).device;  // that the rows were priced on
  const std::vector<size_t> rows = runs.fitted();
  const Fit fit = fit_constants(runs, rows);
  Calibration c{.hardware = cluster.name,
                .device = device.name,
                .peak = peak_flops(device, runs.dtype()),
                .precision = runs.dtype(),
                .software = o.text("software"),
                .data = file_name(o.positional("DATA")),
                .rows = static_cast<int64_t>(rows.size()),
                .constants = fit.constants};
  c.cluster = cluster_text(o.text("hardware"));
  if (const AgreedTraits agreed = runs.traits(rows); agreed.differ.empty()) c.traits = agreed.traits;
  for (const FoldBy by : {FoldBy::rows, FoldBy::layout, FoldBy::model})
    if (name_of(by) == o.text("folds")) c.folds = by;
  std::vector<double> unseen;
  if (const auto folds = folds_for(runs, rows, c.folds); !folds.empty()) {
    unseen = left_out(runs, rows, folds);
    c.left_out = errors_of(runs, rows, unseen);
  }
  PricedTable scored{runs, {}, {}, c};
  for (size_t i = 0; i < runs.size(); ++i)
    if (runs.run(i).seconds > 0 && runs.run(i).use != RunUse::fit) scored.rows.push_back(i);
  scored.predicted = runs.seconds(scored.rows, c.constants);
  return {runs, rows, c, runs.seconds(rows, c.constants), unseen, scored};
}

void print_calibration_json(const Calibrated& k) {
  const Calibration& c = k.calibration;
  Json out{{"hardware", c.hardware},
           {"device", c.device},
           {"precision", std::string(name_of(c.precision))},
           {"software", c.software},
           {"rows", c.rows},
           {"constants", constants_json(c.constants)},
           {"fitted", errors_json(errors_of(k.runs, k.rows, k.fitted))}};
  if (!k.unseen.empty()) {
    out["folds"] = std::string(name_of(c.folds));
    out["left_out"] = errors_json(c.left_out);
    const Ordered pairs = ordered(k.runs, k.rows, k.unseen);
    out["pairs"] = {{"pairs", pairs.pairs}, {"in_order", pairs.right}};
  }
  if (!k.scored.rows.empty()) out["scored"] = table_json(k.scored);
  print_json(out);
}

void print_calibration(const Calibrated& k, const std::string& path) {
  const Calibration& c = k.calibration;
  const std::vector<double>& judged = k.unseen.empty() ? k.fitted : k.unseen;
  print_out(fmt::format("{} rows of {} for {}, {}, {}\n\n", c.rows, path, c.hardware, name_of(c.precision),
                        make_printable(c.software)));
  print_out(constants_text(c.constants));
  print_out(fmt::format("\nfitted     {}\n", errors_words(errors_of(k.runs, k.rows, k.fitted))));
  if (k.unseen.empty())
    print_out("left out   one row leaves none out: no error is known\n");
  else
    print_out(fmt::format("left out   by {}: {}\n", name_of(c.folds), errors_words(c.left_out)));
  if (const Ordered pairs = ordered(k.runs, k.rows, judged); pairs.pairs)
    print_out(fmt::format("in order   {} of {} pairs of one job, more than 5 % apart ({:.3f})\n", pairs.right,
                          pairs.pairs, pairs.share()));
  print_out("\nfarthest off\n" + worst_rows(k.runs, k.rows, judged));
  if (!k.scored.rows.empty()) print_out("\nrows to score\n" + table_report(k.scored));
}

}  // namespace

int run_plan_calibrate(const Options& o) {
  if (!o.has("hardware"))
    throw Error(ErrorKind::usage, "plan calibrate: --hardware must be given; see `tern help plan calibrate`");
  const std::string &path = o.positional("DATA"), &output = o.text("output");
  require_output_place("--output", output, "a calibration", is_calibration, real_io());
  const Cluster cluster = find_cluster(o.text("hardware"));
  const RunSet runs(read_runs(path, defaults_of(o)), cluster, path);
  const Calibrated k = calibrate(o, runs, cluster);
  const Calibration& c = k.calibration;
  if (!output.empty()) {  // before anything is printed: a reader may close its end early
    write_file_atomically(real_io(), output, calibration_toml(c));
    log_info("wrote {}", output);
  }
  if (o.flag("json"))
    print_calibration_json(k);
  else
    print_calibration(k, path);
  if (const std::string few = few_words(c); !few.empty()) log_warn("{}", few);
  if (const auto differ = runs.traits(k.rows).differ; !differ.empty())
    log_warn(
        "the fitted rows differ in {}: the calibration says nothing of it, and `tern plan --calibration` prices "
        "as a row that leaves these columns out",
        join({differ.begin(), differ.end()}, ", "));
  if (const double off = errors_of(runs, k.rows, k.fitted).median; off > 0.5)
    log_warn(
        "calibrate: the fitted times are off by {:.0f} % (median): no constants within their bounds explain these "
        "runs; are the times in milliseconds, the devices and dtype those of '{}'?",
        100 * off, c.hardware);
  return 0;
}

int run_plan_table(const Options& o) {
  const std::string& path = o.positional("FILE");
  std::optional<Calibration> c;
  if (o.has("calibration")) c = read_calibration(o.text("calibration"));
  if (!c && !o.has("hardware"))
    throw Error(ErrorKind::usage, "plan table: --calibration must be given, or --hardware for a machine's own rates");
  Cluster cluster = o.has("hardware") ? find_cluster(o.text("hardware"))
                                      : parse_cluster(c->cluster, o.text("calibration") + ": cluster.toml");
  const RunSet runs(read_runs(path, defaults_of(o)), cluster, path);
  if (c) cluster = calibrated(cluster, *c, runs.dtype());
  if (const std::string few = c ? few_words(*c) : ""; !few.empty()) log_warn("{}", few);
  PricedTable t{runs, runs.all(), {}, c};
  t.predicted = c ? runs.seconds(t.rows, c->constants) : runs.seconds_on(t.rows, cluster);
  if (o.flag("json"))
    print_json(table_json(t));
  else
    print_out(table_report(t));
  return 0;
}

}  // namespace tern
