#pragma once
// What an assignment costs: the one place that says how layers' cost vectors become stage times and bytes. The search,
// its tests, the baselines and the Plan's tables all ask here.
//
// Virtual stage s holds layers [a, e) under their strategies:
//   forward   max(Σ forward + Σ within.forward + entry_forward of a, Σ host_forward)
//   operation backward, and weight gradient where the schedule does not split them:
//             max(Σ (backward + recompute + weight) + Σ within.backward + entry_backward of e − 1, Σ host_backward);
//             where it splits them, the same without weight, and Σ weight an operation of its own
//   sends     across.forward and across.backward of the edge (e − 1, e)
//   begin     Σ begin over the device's stages
//   tail      the gradient link's backlog after the last operation, then Σ update. The backlog walks the device's
//   layers
//             in the order of their last weight gradients, last virtual stage first and last layer of a stage first:
//             backlog = max(backlog − t_u, 0) + sync_u, where t_u is the time of u's last gradient operation
//             (recompute + backward + weight, with the resharding behind it; weight alone where the schedule splits)
//   bytes     per device and tier: Σ persistent + the order's peak of Σ held·micro-batches (and, on the device tier,
//             Σ held_weight·micro-batches + the largest transient of the running stage's units: pipeline_peaks)

#include <memory>

#include "plan/instance.h"
#include "program/pipeline.h"

namespace tern {

struct Priced {
  PipelineShape shape;
  PipelineTimes times;
  std::vector<TierBytes> peak;  // per device
  int64_t makespan = 0;         // ps, simulated, whether or not it fits
  // The tier that is short of the most bytes; missing_bytes ≤ 0: it fits, with that much to spare at least.
  int device = 0;
  Tier tier = Tier::device;
  int64_t missing_bytes = 0;
  bool fits() const { return missing_bytes <= 0; }
};

PipelineShape shape_of(const Instance&);

/// No step takes longer than this: every layer's dearest strategy, links and share of the host link, one after
/// another. ps
double longest_step(const Instance&);

/// Errors: usage, naming the table, for an instance whose tables have the wrong sizes, negative costs, fewer layers
/// than virtual stages, a step that may take kMostStepPs, or a schedule without an order for its shape; never for an
/// instance in which nothing fits.
void check_instance(const Instance&);

/// Errors: usage, for an assignment that is not of the instance: sizes, an empty or skipped stage, an unknown strategy.
Priced price(const Instance&, const Assignment&);

/// The same for many assignments of one instance: an order that does not depend on the times is prepared once.
class Pricer {
 public:
  explicit Pricer(const Instance&);  // keeps a reference
  ~Pricer();
  Priced operator()(const Assignment&);

 private:
  struct Cache;
  const Instance& instance_;
  std::unique_ptr<Cache> cache_;
};

/// UniAP's formula Σp + Σo + (c − 1)·max({p} ∪ {o}) of priced times: p forward + backward + weight of a virtual stage,
/// o both ways of a link. Begin and tail are left out.
int64_t simple_objective(const PipelineShape&, const PipelineTimes&);

}  // namespace tern
