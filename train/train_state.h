#pragma once
// Everything that changes while a model trains and that a checkpoint must hold.

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "spec/layout.h"
#include "train/checkpoint_writer.h"
#include "train/inputs.h"
#include "train/tensor_place.h"
#include "update/outer.h"
#include "update/state.h"
#include "update/stored_states.h"

namespace tern {

/// Whether only adapters are trained: then a run begins without a second, wider copy of the model.
bool trains_adapters_alone(const ModelSpec&);

struct TrainState {
  ModelWeights weights;    // in the compute dtype
  ModelWeights gradients;  // zero between steps
  OptimizerState optimizer;
  std::unique_ptr<StoredStates> stored{};  // of runs with --states disk: what `optimizer` then lacks
  int64_t beginning_bytes =
      0;                 // of a fresh state made unit by unit: the peak while weights were made, before gradients
  int64_t step = 0;      // steps done
  uint64_t samples = 0;  // the Feed's position
  std::optional<OuterState> outer{};  // of runs with --outer
  std::vector<NamedTensor> beside{};  // a StepCompanion's
};

/// Whether fresh_state goes unit by unit on this rank.
bool begins_by_units(const ModelSpec&, const Shares&, const std::vector<bool>& elsewhere, const TensorPlace&);
/// A run's beginning: weights drawn (--from-scratch) or read, in f32 where the compute dtype is bf16, new adapters, zero
/// moments.
/// Errors: those of load_weights; NotFinite naming the tensor of the files that holds NaN or infinity.
/// A rank that does not have the whole model (ZeRO 3, stages, matrices in parts) begins unit by unit, with one whole unit beside.
/// Shares: which parts of the optimizer's state and of the weights this rank keeps (update/shares.h).
/// elsewhere: units that another rank has (allocate_weights).
TrainState fresh_state(const TrainSettings&, const TrainInputs&, Arena&, Shares = {},
                       const std::vector<bool>& elsewhere = {}, const TensorPlace& = {});
/// The state of a verified checkpoint, or this rank's part of it. No checkpoint holds frozen parameters: they are read from the
/// model that the run began with. Errors: those of fresh_state where something is frozen; bad_file naming the tensor
/// that is missing, unknown, or of another shape or type. beside: tensors that get their numbers from it too.
TrainState load_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint, const Manifest&,
                      Arena&, Shares = {}, const std::vector<bool>& elsewhere = {}, const TensorPlace& = {},
                      std::vector<NamedTensor> beside = {});

}  // namespace tern
