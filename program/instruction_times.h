#pragma once
// The time of each instruction of a Program, in picoseconds, from the cost model or from rough rates.

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The costs of a placement's ranks and links.
struct PlacementCosts {
  std::vector<const LayerCosts*> layers;  // for each rank: the layer costs on its machine
  std::vector<EdgeCost> links;            // from each virtual stage but the last to the next one
};

/// The cost model's time of each instruction, ps. The Program must be the one that `lower` makes of the placement.
/// Passes            A pass through a unit takes the cost model's time of the unit. A layer may take longer than its units together,
///                   because the compute does not hide all of a ZeRO 3 gather: the difference is added to the unit that the pass
///                   reaches last. The UPDATEs of a layer's units divide the layer's update time in proportion to trained parameters.
/// Collectives       A layer's first GATHER before the first forward (micro −1) takes the layer's `begin`. Without such a GATHER
///                   `begin` is added to the layer's first FORWARD. If a stage's pass begins with the layer, the layer's first GATHER for
///                   this pass takes the layer's entry time. All other GATHERs take no time. Of a layer's sums on the gradient link, the
///                   first whose micro is −1 or num_micro − 1 takes the layer's whole `sync`. All other sums, JOIN, MERGE and
///                   NORM take no time.
/// program/README.md says how closely a Program simulated with these times agrees with the stage model (stage_instance).
std::vector<int64_t> instruction_times(const Program&, const ModelSpec&, const Placement&, const PlacementCosts&);

/// Rates of a machine for rough times.
struct Rates {
  double flops_per_s = 1e11, bytes_per_s = 1e10;
  double disk_bytes_per_s = 1e9;  // reading and writing together, for an UPDATE whose states lie on the disk
};
/// Rough times, ps: an instruction takes max(flops / flops_per_s, bytes_moved / bytes_per_s); an UPDATE whose states lie on the
/// disk takes message_bytes / disk_bytes_per_s if that is longer.
std::vector<int64_t> instruction_times(const Program&, const Rates&);

}  // namespace tern
