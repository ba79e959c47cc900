#pragma once
// The cost model: what a layer costs on a rank of a mesh, as the integer cost vector of plan/instance.h. Closed forms
// of spec/unit_cost.h for bytes and work, rates of a Machine for time. docs: plan/README.md has the formulas.

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/rounding.h"
#include "hardware/machine.h"
#include "plan/framework_bytes.h"
#include "plan/instance.h"
#include "plan/layers.h"
#include "plan/planned_memory.h"
#include "plan/sharing.h"
#include "plan/strategy.h"
#include "plan/train_job.h"
#include "spec/model_spec.h"
#include "spec/recompute.h"

namespace tern {

/// Figures of a unit that do not depend on the strategy, on one rank, for one micro-batch.
struct UnitFacts {
  int64_t forward = 0, backward = 0, weight = 0;  // ps, communication of the tensor, context and expert axes included
  // ps, by PartRecompute; second blocks: half the forward, the mean over blocks
  std::array<int64_t, kPartRecomputes.size()> made_again{};
  int64_t narrowed_weights = 0;           // ps; once a step, of ZeRO 3 behind each gather
  int64_t parameters[2]{}, trained[2]{};  // [0] dense, [1] experts'
  int64_t state_bytes[2]{};               // of the update rule, for trained parameters
  WidestShare widest[2];                  // the most that one replica keeps if the replicas shard state
  int64_t input_bytes = 0, output_bytes = 0, saved_bytes = 0, left_bytes = 0;
  int64_t forward_workspace = 0, unsaved_workspace = 0, backward_workspace = 0;
  bool remade_by_attention = false, remade_by_full = false;  // whether Recompute::attention, ::full recomputes it
  bool shares_table = false;       // reads the embedding's table (tied head, bridge); in a pipeline: has a copy
  int64_t own_table_gradient = 0;  // elements, see spec/unit_cost.h
};

/// Costs of a model's layers under one mesh and micro-batch size. The referenced objects must outlive a LayerCosts.
class LayerCosts {
 public:
  /// `other_groups`: the cluster has nodes of other types, so the first and the last stage may lie in different nodes
  /// even if this machine is one node. `bytes_of`: a framework. If has_own_bytes is true of the framework, its formulas
  /// count the bytes of weights, states and activations, and transfers take the time of these bytes.
  LayerCosts(const ModelSpec&, const TrainJob&, const Machine&, const Mesh&, int64_t micro_batch,
             bool other_groups = false, std::optional<Framework> bytes_of = {}, FrameworkRun run = {});

  /// `pipelined`: more than one stage, so a tied head and an encoder's bridge hold tables of their own. `part` adds to
  /// the recomputation's time alone: the bytes are those of the strategy.
  CostVector cost(const Layer&, const LayerStrategy&, bool pipelined, PartRecompute part = PartRecompute::none) const;
  /// Splits cost().persistent by what the bytes are for; activations and buffers are 0.
  PlannedMemoryByTier persistent(const Layer&, const LayerStrategy&, bool pipelined) const;
  /// The cost of the link between a layer and the next one in another stage. `inside`: neighbouring stages lie in one node.
  EdgeCost edge(const Layer&, bool inside) const;

  const std::vector<UnitFacts>& units() const { return units_; }

 private:
  LayerParameters parameters_of(const Layer&, bool pipelined) const;
  void replace_bytes(const Unit&, const CostQuery&, UnitFacts&) const;
  void add_activations(const Layer&, const LayerStrategy&, CostVector&) const;
  /// The units' facts for sequences of unlike length, where the ranks of the data axis wait for each other after every
  /// `windows` windows.
  std::vector<UnitFacts> facts_for(const ModelSpec&, int64_t micro_batch, int64_t windows);

  const TrainJob& job_;
  const Machine& machine_;
  Mesh mesh_;
  bool in_one_node_;
  std::optional<Framework> bytes_of_;
  FrameworkRun run_;
  std::vector<UnitFacts> units_;
  std::vector<UnitFacts> waiting_;  // for ZeRO 2 and 3, whose replicas wait after each micro-batch; empty: as units_
  TableCopy table_;                 // of the embedding
  int64_t largest_message_ = 0;     // bytes, between stages
};

/// An upper bound of a step's time, ps: a sum over all layers. A layer adds to `micro` the longest compute and host
/// link times of any strategy, and its messages if there are several stages; to `once` the longest time of what it does
/// once a step. Infinite if a time is so long that the cost model cuts it off (kMostPs, hardware/rates.h).
struct LongestTimes {
  double micro = 0, once = 0;  // of a micro-batch; of a step
  /// Whether every step stays below kMostStepPs. A choice for which this is false is not planned; only bounds of it are computed.
  bool counted(int64_t num_micro) const {
    return micro * static_cast<double>(num_micro) + once < kMostStepPs * (1 - 1e-9);
  }
};
/// The bound for these layers under these strategies.
LongestTimes longest_times(const LayerCosts&, const std::vector<Layer>&, const std::vector<LayerStrategy>&,
                           bool pipelined);

/// ceil(n / shards)
inline int64_t shard_of(int64_t n, int64_t shards) { return ceil_div(n, shards); }

}  // namespace tern
