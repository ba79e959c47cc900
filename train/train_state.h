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

/// Whether only adapters are trained. Then a run begins without a second, wider copy of the model.
bool trains_adapters_alone(const ModelSpec&);

/// The state of one rank.
struct TrainState {
  ModelWeights weights;    // in the type of the computation
  ModelWeights gradients;  // zero between steps
  OptimizerState optimizer;
  std::unique_ptr<StoredStates> stored{};  // with --states disk: the states, which `optimizer` then does not hold
  // Peak bytes of fresh_state before gradients, if it makes weights of a wider type first, or unit by unit; else 0.
  int64_t beginning_bytes = 0;
  int64_t step = 0;                   // steps done
  uint64_t samples = 0;               // samples seen; the Feed's next sample has this number
  std::optional<OuterState> outer{};  // with --outer
  std::vector<NamedTensor> beside{};  // the tensors of a StepCompanion, which a checkpoint holds too
};

/// Whether fresh_state makes the weights unit by unit on this rank.
bool begins_by_units(const ModelSpec&, const Shares&, const std::vector<bool>& elsewhere, const TensorPlace&);
/// The state at the beginning of a run: weights drawn (--from-scratch) or read, in f32 first if bf16 computes, new adapters, zero moments.
/// A rank that does not have the whole model (ZeRO 3, stages, tensor groups) makes its weights unit by unit, with one whole unit in memory.
/// Shares     which parts of the optimizer's state and of the weights this rank keeps (update/shares.h).
/// elsewhere  by unit: whether another rank has it (allocate_weights).
/// Errors     those of load_weights; NotFinite, naming the tensor of the files that holds NaN or infinity.
TrainState fresh_state(const TrainSettings&, const TrainInputs&, Arena&, Shares = {},
                       const std::vector<bool>& elsewhere = {}, const TensorPlace& = {});
/// The state of a verified checkpoint, or this rank's part of it. Checkpoints do not hold frozen parameters; these are read from the model
/// that the run began with. `beside`: tensors that get their numbers from the checkpoint too.
/// Errors: those of fresh_state if something is frozen; bad_file, naming the tensor that is missing, unknown, or of another shape or type.
TrainState load_state(const TrainSettings&, const TrainInputs&, Io&, const std::string& checkpoint, const Manifest&,
                      Arena&, Shares = {}, const std::vector<bool>& elsewhere = {}, const TensorPlace& = {},
                      std::vector<NamedTensor> beside = {});

}  // namespace tern
