#pragma once
// The last instructions of a step: NORM, and UPDATE of each unit.

#include "program/placement.h"
#include "program/program.h"
#include "spec/unit_cost.h"

namespace tern {

/// Whether each replica updates only a share of layer l's trained parameters, and keeps only that share's states.
bool is_shared_out(const Placement&, int l);

/// Whether the rule is one that sums over all gradients of the model (UpdateSums). True even if an option turns its sums off.
bool sums_over_model(const Placement&);

/// NORM over the `trained` elements of a rank of the run. shared_blocks: the number of blocks (kUpdateBlock) whose sum
/// one rank computes and sends to the others. With a pipeline or expert groups these are all blocks, else those that are shared out. Not read in tensor groups.
Instruction norm_instruction(const Placement&, int64_t trained, int64_t shared_blocks);

/// The unit that an UPDATE changes.
struct UpdatedUnit {
  int layer = 0, unit = 0;
  bool table_copy = false;  // UPDATE also updates the device's copy of the embedding table
};
/// UPDATE of a unit. States on the disk pass through memory while the UPDATE runs: message_bytes is then the sum of the
/// bytes read and written.
Instruction update_instruction(const ModelSpec&, const Placement&, const UnitCost&, const UpdatedUnit&);

}  // namespace tern
