#pragma once
// Everything that changes while a model trains and that a checkpoint must hold.

#include <cstdint>
#include <vector>

#include "train/checkpoint_writer.h"
#include "train/inputs.h"
#include "update/state.h"

namespace tern {

struct TrainState {
  ModelWeights weights;    // in the compute dtype
  ModelWeights gradients;  // zero between steps
  OptimizerState optimizer;
  int64_t step = 0;      // steps done
  uint64_t samples = 0;  // the Feed's position
};

/// A run's beginning: weights drawn (--from-scratch) or read, in f32 where the compute dtype is bf16, new adapters, zero
/// moments.
/// Errors: those of load_weights; NotFinite naming the tensor of the files that holds NaN or infinity.
TrainState fresh_state(const TrainSettings&, const TrainInputs&, Arena&);
/// The state of a rank of a verified checkpoint. What is frozen is in none: it comes from where the run began. Errors:
/// those of fresh_state where something is frozen; bad_file naming the tensor that is missing, unknown, or of
/// another shape or type.
TrainState load_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint, const Manifest&,
                      int rank, Arena&);

/// What a checkpoint holds: "model.NAME" (masters), then "SLOT.NAME" of what the rule keeps (spec/update_rules.def).
std::vector<NamedTensor> named_tensors(UpdateRule, const OptimizerState&);

}  // namespace tern
