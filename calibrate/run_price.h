#pragma once
// The time of one run, as `tern plan` prices it: the cost model's layers in equal stages, on the pipeline's clock.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "calibrate/ready_pipelines.h"
#include "calibrate/run_table.h"
#include "hardware/cluster.h"
#include "hardware/machine.h"
#include "plan/instance.h"
#include "plan/layers.h"
#include "plan/legality.h"
#include "program/pipeline_run.h"
#include "program/stage_model.h"
#include "spec/model_spec.h"

namespace tern {

/// Costs of the embedding, a block and the head, and of what a block sends to a stage in another node, or in its own
/// node.
struct LayerPrices {
  std::array<CostVector, 3> layers;
  EdgeCost far, near;
};

/// Makes a run ready to be priced many times under other rates. Blocks are equal, so three layers (embedding, a block,
/// head) are priced and counted. full_instance and full_assignment have every layer, for the stage model and price(),
/// whose times are the same to the picosecond (calibrate_test.RunPricer.*).
/// Errors  bad_file "PATH:LINE: …": the model is no preset, its sizes make no model, or its blocks are not alike (encoders beside decoders); the
/// plan is not legal on such nodes; a mixture's row says PartRecompute::operations, or no sequence parallelism over tensor ranks; there are fewer blocks, with the embedding and the head, than stages, or more operations than kMostOperations; as ReadyPipelines.
class RunPricer {
 public:
  RunPricer(const PublishedRun&, const Cluster&, const std::string& path, ReadyPipelines&);

  int64_t num_nodes() const { return num_nodes_; }
  const PublishedRun& run() const { return run_; }

  /// The step's time, ps. machine: num_nodes() nodes of the cluster, with any rates. One thread at a time may call
  /// this, on copies too.
  int64_t step_ps(const Machine& machine) const { return step_ps(machine, prices_on(machine)); }

  /// Prices of a block and of both ends. Runs that differ only in their numbers of blocks and micro-batches share them.
  LayerPrices prices_on(const Machine& machine) const;
  bool shares_prices_with(const RunPricer&) const;
  int64_t step_ps(const Machine& machine, const LayerPrices&) const;

  Instance full_instance(const Machine&) const;
  Assignment full_assignment() const;

 private:
  PipelineTimes times_on(const Machine&, const LayerPrices&) const;
  bool inside(const Machine&, int stage) const;
  int blocks_of(int stage) const;
  Machine with_traits(const Machine&) const;

  PublishedRun run_;
  ModelSpec few_;  // one block of the model; the others are like it
  std::vector<Layer> few_layers_;
  int num_blocks_ = 0;
  int64_t num_nodes_ = 1;
  PipelineShape shape_;
  std::shared_ptr<ReadyPipelines::Ready> ready_;  // nothing for schedules whose order follows the times
};

}  // namespace tern
