#pragma once
// The input of the search: tables of cost vectors, without models or machines. build_instance fills the tables by the
// cost model; a rival's cost function or a test may fill tables too. An Instance fixes the outer choice θ (devices per
// stage, number of stages, schedule, micro-batches). The search places layers into stages and gives each layer a
// strategy. All numbers are integers, in picoseconds and bytes, so that equal means equal.

#include <cstdint>
#include <string>
#include <vector>

#include "spec/pipeline_schedule.h"
#include "spec/tier.h"

namespace tern {

/// What a layer (a unit or a run of units) costs under one strategy, on each device of a stage. Times are of one
/// micro-batch unless said otherwise.
struct CostVector {
  int64_t forward = 0;                          // ps
  int64_t backward = 0;                         // ps, gradient of the input
  int64_t weight = 0;                           // ps, gradient of the weights
  int64_t recompute = 0;                        // ps, forward again just before the backward
  int64_t host_forward = 0, host_backward = 0;  // ps on the stage's share of the host link, beside the compute: a pass
                                                // of a stage takes the larger of Σ compute and Σ host
  int64_t entry_forward = 0;   // ps more if the layer is the first of the stage (a gather that nothing hides)
  int64_t entry_backward = 0;  // ps more if the layer is the last of the stage
  int64_t begin = 0;           // ps per step before the stage's first forward
  int64_t sync = 0;            // ps per step on the gradient link, from the layer's last weight gradient on
  int64_t update = 0;          // ps per step after the stage's last sync
  TierBytes persistent{};      // bytes all the time
  TierBytes held{};            // bytes per micro-batch from the forward to the backward
  int64_t held_weight = 0;     // device bytes per micro-batch from the backward to the weight gradient
  int64_t transient = 0;       // device bytes while the layer works; a maximum over a stage, not a sum
  friend bool operator==(const CostVector&, const CostVector&) = default;
};

/// The cost of passing data from a layer to the next one, ps for one micro-batch.
struct EdgeCost {
  int64_t forward = 0, backward = 0;
  friend bool operator==(const EdgeCost&, const EdgeCost&) = default;
};

/// A chain of layers; layer u has strategies 0 … cost[u].size() − 1.
/// Shapes  cost (L)(S_u); within, across (L − 1)(S_u · S_{u+1}), row-major (k of u, l of u + 1).
struct Instance {
  int num_stages = 1;        // P, the devices of the pipeline; each virtual stage holds at least one layer
  int chunks_per_stage = 1;  // v: virtual stages on each device of the pipeline; 2 for the V shapes
  int num_micro = 1;         // c
  PipelineSchedule schedule = kOneStageSchedule;
  std::vector<std::vector<CostVector>> cost;
  std::vector<std::vector<EdgeCost>> within;  // inside a stage: on the compute clock (resharding)
  std::vector<std::vector<EdgeCost>> across;  // between stages: on the link, one time each way
  std::vector<TierBytes> capacity;            // (P) bytes of one device of the mesh at each place in the pipeline
  std::vector<int> layer_class;  // (L) layers of equal class have equal rows of `cost`; pairs of layers of equal
                                 // classes have equal `within` and `across`. Empty: all layers differ
  // Unlike device types; both vectors empty: all devices are alike. Layers on device i of the pipeline take strategies whose
  // strategy_type is stage_type[i]; kAnyType: all strategies. Layers of equal layer_class have equal rows of strategy_type.
  std::vector<int> stage_type;                  // (P)
  std::vector<std::vector<int>> strategy_type;  // (L)(S_u)
  // Links of unlike speed; empty: all links have the costs `across`. The link from virtual stage s to s + 1 has class
  // link_class[s]: class 0 has the costs `across`, class n the costs other_across[n − 1].
  std::vector<int> link_class;  // (P·v − 1)
  std::vector<std::vector<std::vector<EdgeCost>>> other_across;
  int num_layers() const { return static_cast<int>(cost.size()); }
};

/// 13 days. A step that may take longer is not planned: sums and products of its times could exceed 63 bits.
inline constexpr double kMostStepPs = 0x1p60;
/// ps or bytes: more than any step takes and any tier holds. As a bound: nothing fits. A sum of a few kNever still fits
/// into 64 bits.
inline constexpr int64_t kNever = int64_t{1} << 60;

/// In stage_type: layers on the device take strategies of all types. Set only to bound all orders of unlike devices at once.
inline constexpr int kAnyType = -1;
/// Whether a device of the pipeline of type `stage_type` may run strategy k of layer u.
inline bool runs_on(const Instance& in, int stage_type, int u, int k) {
  return in.strategy_type.empty() || stage_type == kAnyType ||
         in.strategy_type[static_cast<size_t>(u)][static_cast<size_t>(k)] == stage_type;
}
inline int type_of_stage(const Instance& in, int device) {
  return in.stage_type.empty() ? kAnyType : in.stage_type[static_cast<size_t>(device)];
}
/// Costs of the link from virtual stage s to s + 1, as Instance::across has them.
inline const std::vector<std::vector<EdgeCost>>& links_behind(const Instance& in, int s) {
  const int c = in.link_class.empty() ? 0 : in.link_class[static_cast<size_t>(s)];
  return c == 0 ? in.across : in.other_across[static_cast<size_t>(c) - 1];
}

/// An answer of the search: layer u lies in virtual stage stage[u] (0 … P·v − 1, non-decreasing) under strategy[u].
struct Assignment {
  std::vector<int> stage, strategy;
  friend bool operator==(const Assignment&, const Assignment&) = default;
};

}  // namespace tern
