#pragma once
// Everything that changes while a model trains and that a checkpoint must hold.

#include <cstdint>
#include <optional>
#include <vector>

#include "spec/layout.h"
#include "train/checkpoint_writer.h"
#include "train/inputs.h"
#include "train/tensor_place.h"
#include "update/outer.h"
#include "update/state.h"

namespace tern {

/// Whether only adapters are trained: then a run begins without a second, wider copy of the model.
bool trains_adapters_alone(const ModelSpec&);

struct TrainState {
  ModelWeights weights;    // in the compute dtype
  ModelWeights gradients;  // zero between steps
  OptimizerState optimizer;
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

/// A tensor of a checkpoint, "model.NAME" (masters) or "SLOT.NAME" (spec/update_rules.def), and this rank's part of it.
struct StateTensor {
  std::string name;
  DType dtype;
  Shape shape;  // of the whole
  Tensor own;   // the whole, or this rank's part as one row of numbers; empty: it has none
  // Who keeps which of the elements; empty: every rank has it whole. (In stages others than the owner may have it too.) Of a tensor
  // group the elements are those of this rank's part, and the ranks those of its place.
  std::vector<RankInterval> owners{};
  int64_t begin = 0;             // of `own` in the whole, or in the part
  std::vector<Holding> parts{};  // of a tensor group: what each of its ranks has of the whole (model/tensor_parts.h)
  int64_t part_elements = 0;     // of this rank's part, if there are any
};
/// What a checkpoint holds: all masters, then what the rule keeps, then what no update changes. `dtype` is the weights'.
std::vector<StateTensor> state_tensors(const UpdateConfig&, DType dtype, const OptimizerState&);
/// The same and what is kept beside, or of a run with --outer what all its ranks have (train/outer_run.h).
std::vector<StateTensor> state_tensors(const TrainSettings&, const TrainState&);

/// Brings every rank's part to rank 0's `whole` (other ranks pass an empty Tensor). All ranks call it.
void gather_to_first(Comm&, const StateTensor&, const Tensor& whole);

}  // namespace tern
