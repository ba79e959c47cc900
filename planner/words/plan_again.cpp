#include "planner/words/plan_again.h"

#include "base/error.h"

namespace tern {

PlanAnswer plan_again(const ModelSpec& spec, const Cluster& cluster, const PlanRequest& request) {
  try {
    return plan_model(spec, cluster, request);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::usage) throw;
  }
  return {};
}

bool is_stopped(const PlanRequest& r) { return r.stop && *r.stop; }

}  // namespace tern
