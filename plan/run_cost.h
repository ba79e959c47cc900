#pragma once
// What a whole run takes: time and money for its tokens, with checkpoints and failures counted.

#include <cstdint>

#include "hardware/cluster.h"
#include "plan/plan.h"
#include "spec/model_spec.h"

namespace tern {

/// What the cost of a run depends on beside its plan.
struct RunTerms {
  double tokens = 0;  // of the whole run, without padding
  double mtbf_s =
      50'000.0 * 3600;       // mean time between failures per device: failures of the device itself, and its share of
                             // those of the shared equipment
  double checkpoint_s = -1;  // seconds that training pauses for one checkpoint; below 0: computed from the
                             // speed of the nodes' disks
  double restart_s = 300;    // seconds from a failure to the first new step, without reading the checkpoint
};

/// Time and money of a run. δ: a checkpoint's pause, R: a restart and reading the checkpoint, M = mtbf / devices, T: the
/// steps alone.
/// Interval  τ = √(2δM)·(1 + ⅓·√(δ/2M) + ⅑·δ/2M) − δ if δ < 2M, else τ = M; then at least one step and at most T.
/// Wall      M·e^(R/M)·(e^((τ+δ)/M) − 1)·T/τ. Failures are exponentially distributed and also strike checkpoints and restarts.
/// No end    If (R + τ + δ)/M is above 30, a stretch between two checkpoints would be tried e³⁰ times. Such a run counts as one
///           that never ends, and figures that depend on its end are NaN.
/// Source    Daly 2006, doi:10.1016/j.future.2004.11.016, eqs. 37 and 20 (formulas recalled, numbers of equations not
///           checked); √(2δM) alone is Young 1974, doi:10.1145/361147.361115.
struct RunCost {
  int64_t steps = 0;
  double steps_s = 0;                                      // T
  double mtbf_s = 0;                                       // M, of the whole job
  int64_t checkpoint_bytes = 0;                            // weights and optimizer states, one copy
  double checkpoint_s = 0, restart_s = 0, interval_s = 0;  // δ, R, τ
  bool ends = true;                                        // false: failures come faster than progress
  double failures = 0;                                     // expected during the run
  double wall_s = 0;
  double device_hours = 0, cost = 0;
  bool has_price = false;
};

/// τ and the wall time of RunCost, seconds.
double best_interval_s(double checkpoint_s, double mtbf_s);
double expected_wall_s(double steps_s, double interval_s, double checkpoint_s, double restart_s, double mtbf_s);

/// What the plan's whole run takes. Errors: usage, where the nodes have no disk and terms.checkpoint_s is not given.
RunCost run_cost(const ModelSpec&, const Cluster&, const Plan&, const RunTerms&);

}  // namespace tern
