#pragma once
// The times of a Program, beside its list: picoseconds per instruction, from the cost model or from rough rates.

#include <cstdint>
#include <vector>

#include "plan/cost_model.h"
#include "program/placement.h"
#include "program/program.h"

namespace tern {

/// The costs of a placement's ranks and links.
struct PlacementCosts {
  std::vector<const LayerCosts*> layers;  // for each rank: those of its machine
  std::vector<EdgeCost> links;            // behind each virtual stage but the last
};

/// The cost model's time of each instruction, ps. The Program is the one that `lower` makes of the placement.
/// Passes            A unit takes the cost model's time of the unit. A layer may take longer than its units together
///                   (a gather of ZeRO 3 that the compute does not hide): the unit that the pass reaches last
///                   takes the rest. The UPDATEs of a layer's units share the layer's time by trained parameters.
/// Collectives       A GATHER before the first forward (micro −1) takes the layer's `begin`; without such a GATHER the
///                   layer's first FORWARD takes `begin` besides its own time. A GATHER for one pass takes the layer's entry time if the stage's
///                   pass begins with the layer, else no time. The last micro-batch (micro −1 or num_micro − 1) may
///                   sum a layer's gradients in several instructions: the first on the gradient link takes the layer's
///                   `sync`. All other sums, JOIN and NORM take no time.
/// Simulated with these times, a Program agrees with the stage model (stage_instance) as program/README.md says.
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
