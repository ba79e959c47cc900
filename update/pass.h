#pragma once
// What NORM and UPDATE of a step work on: the state, this rank's weights and gradients, and what differs between steps.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/weights.h"
#include "update/rule.h"
#include "update/state.h"

namespace tern {

class StoredStates;  // update/stored_states.h

/// How a rank of a tensor group, which has parts of parameters, adds to NORM's sum of squares: all ranks together add
/// each element once. Rules with sums, and rules that need whole parameters, do not run on parts.
struct TensorNorm {
  struct Part {
    int64_t from;     // elements from this one on are the same on several ranks of the tensor group
    int64_t holders;  // the number of these ranks; NORM divides the squares by this number
    bool counts;      // true where NORM adds it: on its keeper (Shares::keepers), without ZeRO on replica 0
  };
  std::vector<Part> parts{};  // of each parameter
};

/// What NORM and UPDATE work on: made once for a run; begin_step sets what differs between steps.
struct UpdatePass {
  OptimizerState& state;
  const UpdateConfig& config;
  // In the order of state.infos. A tensor is the whole parameter in the model's storage or, if the parameter is shared
  // out, only this rank's part.
  std::vector<Tensor> weights, gradients;
  std::vector<double> rate_factors{};  // of each parameter, where not all learn at the same rate; empty: 1
  std::optional<TensorNorm> tensor{};
  std::optional<DType> weight_dtype{};  // must be set where a rank may have no weights (ZeRO 3)
  StoredStates* stored = nullptr;       // if not null: the file in which state.master and state.slots lie
  double learning_rate = 0;
  int64_t step = 0;  // the number of the present step, from 1
  double highest_rate = 0,
         squared_rates =
             0;  // up to this step: the highest rate so far; Σ over steps of (the highest rate up to that step)²
};
/// The type of the pass's weights.
DType weight_type(const UpdatePass&);
/// Sets the pass to step `number` with the rate rate_of(number). If this pass did not do the step before, asks rate_of
/// for all earlier steps too, so that a resumed run has the bits of a run that was not stopped.
void begin_step(UpdatePass&, int64_t number, const std::function<double(int64_t)>& rate_of);
/// Makes the pass. The state and the config must outlive the pass. The gradients are those of allocate_gradients.
UpdatePass make_update_pass(const ModelSpec&, OptimizerState&, const UpdateConfig&, ModelWeights& weights,
                            ModelWeights& gradients);

/// Allocates, as zeros, this rank's parts of the gradients that ranks share out, which make_update_pass leaves empty.
void add_gradient_parts(UpdatePass&, DType wide, Arena&);

/// A parameter of the pass as the functions of a rule take it: whole, or this rank's interval. `parameter`: index in
/// state.infos. Allocates no elements.
UpdateShard shard_of(const UpdatePass&, const UpdateNorm&, size_t parameter);

/// For rules that take gradients at other weights than the saved ones; for other rules put_weights_at does nothing. saved:
/// the rounded masters, to evaluate or to write a model. computing: the weights that the last step left, to the bit.
/// A state that was read from a checkpoint needs `computing` before the first step.
enum class WeightPoint : uint8_t { saved, computing };
void put_weights_at(const UpdatePass&, WeightPoint);

}  // namespace tern
