#include "plan/plan.h"

#include "plan/job_windows.h"

namespace tern {
namespace {

double gap(int64_t value, int64_t bound) {
  return bound >= value ? 0 : static_cast<double>(value - bound) / static_cast<double>(value);
}

}  // namespace

double Plan::model_gap() const { return gap(model_ps, model_bound_ps); }
double Plan::simulator_gap() const { return gap(step_ps, bound_ps); }
double Plan::tokens_per_second() const {
  return step_ps > 0 ? step_tokens(job) / (static_cast<double>(step_ps) * 1e-12) : 0;
}
double Plan::window_tokens_per_second() const {
  return step_ps > 0 ? static_cast<double>(job.batch * job.seq) / (static_cast<double>(step_ps) * 1e-12) : 0;
}

}  // namespace tern
