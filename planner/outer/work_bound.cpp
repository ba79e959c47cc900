// What needs no enumeration: the model's products on all devices at their peak.
#include <algorithm>
#include <cmath>

#include "hardware/rates.h"
#include "plan/job_windows.h"
#include "plan/window_mix.h"
#include "planner/outer/candidates_impl.h"
#include "planner/outer/choice_bounds_impl.h"
#include "spec/unit_cost.h"
#include "spec/unit_products.h"

namespace tern {
namespace {

// FLOPs that are priced for one sequence on one rank: forward, both gradients. Rows of experts as they are asked for,
// not rounded up to whole ones: other meshes round elsewhere. A rank with all experts makes room for no more than these.
double flops_of(const Unit& unit, const TrainJob& job) {
  const double factor = std::min(1.0, job.capacity_factor);
  CostQuery query{.tokens = job.seq, .dtype = job.dtype, .scratch = {}};
  double flops = 0;
  const MoeSpec* experts = std::get_if<MoeSpec>(&unit.spec);
  for (const MatrixProduct& p : unit_products(unit, query)) {
    double rows = static_cast<double>(p.m) * static_cast<double>(p.count);
    if (experts && p.count == experts->experts && p.count > 1)
      rows = std::min(rows, factor * static_cast<double>(job.seq * experts->top_k));
    flops += 2.0 * rows * static_cast<double>(p.n) * static_cast<double>(p.k) * (p.trained ? 3 : 2);
  }
  if (const AttentionSpec* a = attention_of(unit))
    flops += 14.0 * window_pairs(job, *a) * static_cast<double>(a->heads * a->head_dim);
  return flops;
}

}  // namespace

int64_t work_bound(const ModelSpec& spec, const Cluster& cluster, const TrainJob& job) {
  double flops = 0, peak = 0;
  for (const Unit& unit : spec.units) flops += flops_of(unit, job);
  for (const NodeGroup& g : cluster.groups) {
    const NodeType& node = cluster.nodes[static_cast<size_t>(g.node)];
    peak += static_cast<double>(g.count * node.num_devices) *
            peak_flops(cluster.devices[static_cast<size_t>(node.device)], job.dtype);
  }
  const double ps = flops * static_cast<double>(job.batch) / peak * 1e12;
  return static_cast<int64_t>(std::min(ps * (1 - 1e-9), 2 * kMostStepPs));
}

}  // namespace tern
