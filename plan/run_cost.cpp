#include "plan/run_cost.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "plan/job_windows.h"
#include "plan/window_mix.h"
#include "spec/unit_cost.h"

namespace tern {
namespace {

constexpr double kMostFailuresInAStretch = 30;

// A tied table counts once; with adapters they alone.
struct Trained {
  int64_t parameters = 0, state_bytes = 0;
};
Trained trained_of(const ModelSpec& spec, const TrainJob& job) {
  const UpdateConfig config = update_config(job.optimizer);
  Trained t;
  for (const Unit& u : spec.units)
    for (const CountedForm& f : trained_forms(u, {.tokens = 1, .attended_pairs = 1})) {
      t.parameters += f.count * f.form.elements();
      t.state_bytes += f.count * state_bytes(config, job.dtype, f.form);
    }
  return t;
}

}  // namespace

double best_interval_s(double delta, double M) {
  if (delta >= 2 * M) return M;
  const double x = delta / (2 * M);
  return std::sqrt(2 * delta * M) * (1 + std::sqrt(x) / 3 + x / 9) - delta;
}

double expected_wall_s(double T, double tau, double delta, double R, double M) {
  // expm1: with rare failures the exponent is tiny.
  return M * std::exp(R / M) * std::expm1((tau + delta) / M) * T / tau;
}

RunCost run_cost(const ModelSpec& spec, const Cluster& cluster, const Plan& p, const RunTerms& terms) {
  RunCost out;
  const double step_s = static_cast<double>(p.step_ps) * 1e-12, devices = static_cast<double>(p.choice.devices());
  out.steps = static_cast<int64_t>(std::ceil(terms.tokens / step_tokens(p.job)));
  out.steps_s = static_cast<double>(out.steps) * step_s;
  out.mtbf_s = terms.mtbf_s / devices;
  const Trained trained = trained_of(spec, p.job);
  out.checkpoint_bytes = trained.parameters * static_cast<int64_t>(size_of(p.job.dtype)) + trained.state_bytes;
  // Every node writes and reads its share, all at once.
  double write = 0, read = 0;
  for (const PlannedRank& r : p.ranks)
    for (const NodeType& n : cluster.nodes)
      if (n.name == r.node) {
        const double nodes = static_cast<double>(p.choice.mesh.devices()) / static_cast<double>(n.num_devices);
        write += nodes * n.disk_write, read += nodes * n.disk_read;
      }
  const double bytes = static_cast<double>(out.checkpoint_bytes);
  if (terms.checkpoint_s < 0 && write <= 0)
    throw Error(ErrorKind::usage,
                "--tokens: the nodes of '{}' have no disk to write checkpoints of {} bytes to; give --checkpoint-time",
                cluster.name, out.checkpoint_bytes);
  out.checkpoint_s = terms.checkpoint_s >= 0 ? terms.checkpoint_s : bytes / write;
  out.restart_s = terms.restart_s + (read > 0 ? bytes / read : out.checkpoint_s);
  out.interval_s = std::max(step_s, best_interval_s(out.checkpoint_s, out.mtbf_s));
  out.interval_s = std::min(out.interval_s, out.steps_s);
  out.wall_s = expected_wall_s(out.steps_s, out.interval_s, out.checkpoint_s, out.restart_s, out.mtbf_s);
  out.ends = std::isfinite(out.wall_s) &&
             (out.restart_s + out.interval_s + out.checkpoint_s) / out.mtbf_s <= kMostFailuresInAStretch;
  if (!out.ends) out.wall_s = std::numeric_limits<double>::quiet_NaN();
  out.failures = out.wall_s / out.mtbf_s;
  out.device_hours = out.wall_s / 3600 * devices;
  out.has_price = p.price_per_hour > 0;
  out.cost = out.wall_s / 3600 * p.price_per_hour;
  return out;
}

}  // namespace tern
