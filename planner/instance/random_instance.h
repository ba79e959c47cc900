#pragma once
// Random tables of cost vectors, for tests and for benchmarks/planner: the same instance for the same numbers on every
// machine.

#include <cstdint>

#include "plan/instance.h"

namespace tern {

/// What the instance is to be like.
struct RandomInstance {
  int layers = 6, strategies = 3, stages = 2, chunks = 1, micro = 4;
  PipelineSchedule schedule = kOneStageSchedule;
  bool equal_layers = false;  // all of one class, but for the first and the last if `ends`
  bool ends = false;          // an embedding and a head of their own
  bool resharding = true;     // costs between unlike layouts, not the same both ways
  int layouts = 0;            // strategy k has layout k mod layouts; 0: each its own
  int64_t link = 20;          // largest transfer between stages; a layer's forward takes about 100
  bool tails = false, begins = false, entries = false, transients = false, host_link = false, tiers = false,
       split = false;
  int types = 1;         // of devices: strategy k runs on type k mod types, stages are of types drawn at random
  int link_classes = 1;  // of links between stages, drawn at random
  /// Device capacity: a share of the way from the least that fits under an even split (0) to what the dearest
  /// strategies take (1); below 0: nothing fits.
  double memory = 0.4;
  int64_t scale = 1;  // of times
};

/// The instance of these numbers and this seed.
Instance random_instance(const RandomInstance&, uint64_t seed);

}  // namespace tern
