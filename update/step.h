#pragma once
// The end of a step, as its instructions: NORM over all gradients, then UPDATE of each unit. (The REDUCE of a tied table is
// model/weights.h's join_tied_gradients.)

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "update/rule.h"
#include "update/state.h"

namespace tern {

class StoredStates;  // update/stored_states.h

/// For a rank of a tensor group, which has parts of parameters: what NORM counts of them, so that all ranks together count each
/// element once. Rules that take sums of their own, or need a whole parameter, do not run on such parts.
struct TensorNorm {
  struct Part {
    int64_t from;     // elements from this one on are the same on several ranks
    int64_t holders;  // the number of those ranks
    bool counts;      // false: other ranks count what this one has too
  };
  std::vector<Part> parts{};  // of each parameter
};

/// What NORM and UPDATE work on: made once for a run; begin_step sets what differs between steps.
struct UpdatePass {
  OptimizerState& state;
  const UpdateConfig& config;
  // In the order of state.infos; they share the model's storage. Each is whole, or, if the parameter is shared out, this rank's
  // part alone.
  std::vector<Tensor> weights, gradients;
  std::vector<double> rate_factors{};  // of each parameter, where not all learn at the same rate; empty: 1
  std::optional<TensorNorm> tensor{};
  std::optional<DType> weight_dtype{};  // must be set where a rank may have no weights (ZeRO 3)
  StoredStates* stored = nullptr;       // where state.master and state.slots lie in a file instead
  double learning_rate = 0;
  int64_t step = 0;  // the step that is being done, from 1
  double highest_rate = 0,
         squared_rates =
             0;  // up to this step: the highest rate so far; Σ over steps of (the highest rate up to that step)²
};
/// The dtype of the pass's weights.
DType weight_type(const UpdatePass&);
/// Sets the pass to step `number`, whose rate is rate_of(number). If this pass did not do the step before, the rates of all earlier
/// steps are asked for too, so that a resumed run has the bits of one that was not stopped.
void begin_step(UpdatePass&, int64_t number, const std::function<double(int64_t)>& rate_of);
/// The state and the config must outlive it. The gradients are those of allocate_gradients.
UpdatePass make_update_pass(const ModelSpec&, OptimizerState&, const UpdateConfig&, ModelWeights& weights,
                            ModelWeights& gradients);

/// Allocates, as zeros, this rank's parts of gradients that are shared out; make_update_pass leaves them empty.
void add_gradient_parts(UpdatePass&, DType wide, Arena&);

/// A parameter of the pass as a rule's functions take it: whole, or this rank's interval; by its place in state.infos. No
/// temporaries.
UpdateShard shard_of(const UpdatePass&, const UpdateNorm&, size_t parameter);

/// NORM: what every UPDATE of the step needs of all gradients together. Changes nothing.
/// Order   sqrt of Σ over parameters, in the order of trained_parameters(spec), of sum_of_squares (doubles, fixed blocks); the
///         rule's own sums over the model (UpdateSums) in the same order, of clipped gradients.
/// Clip    PyTorch's clip_grad_norm_: coefficient min(1, clip / (norm + 1e-6)).
/// Ranks   of shared parameters each rank sums its own blocks; all ranks then exchange the sums, and get the bits of one rank. In
///         tensor groups each rank sums what it has that others do not count; the ranks' sums are added in rank order.
/// Errors  diverged: a gradient that is not finite, naming the step and the tensor. TERN_CHECK: shared parameters, and no world.
UpdateNorm gradient_norm(const UpdatePass&, Comm* world = nullptr);

/// Of one parameter, Σ x² of its gradient, as gradient_norm adds it. Only where it is whole.
double gradient_squares(const UpdatePass&, size_t parameter);
/// gradient_norm from each parameter's squares, if UPDATEs came before NORM; no sums of the rule. Errors: the same.
UpdateNorm norm_of_squares(const UpdatePass&, const std::vector<double>& squares);
/// Errors  diverged: the square is not finite; naming the parameter, and that others were updated already.
void require_finite_square(const UpdatePass&, size_t parameter, double square);

/// UPDATE(unit): the rule's step on every parameter of the unit, in one pass over memory that also rounds the masters
/// into bf16 weights; then the gradients of the unit are zero. Units may come in any order: same bits.
/// Temporaries are the arena's (MemoryClass::workspace), as many bytes as spec/update_rule.h's update_workspace.
/// Of shared parameters this rank's part; sums over a parameter are exchanged as NORM's, over its replicas.
void update_unit(const UpdatePass&, const UpdateNorm&, int unit, Arena&, Comm* replicas = nullptr);
/// The same for some parameters, by their places in state.infos.
void update_parameters(const UpdatePass&, const UpdateNorm&, std::span<const size_t> parameters, Arena&,
                       Comm* replicas = nullptr);

/// Bytes that each of so many ranks contributes to the exchange of NORM, and of UPDATE of some parameters (block_value_bytes).
std::vector<int64_t> norm_value_bytes(const UpdatePass&, int ranks);
std::vector<int64_t> update_value_bytes(const UpdatePass&, std::span<const size_t> parameters, int replicas);

/// Bytes of all compute threads together that UPDATE leaves in their scratch (kernels/cpu/thread_scratch.h), at most.
int64_t update_thread_bytes(const ModelSpec&, const UpdateConfig&, DType weights);

/// For rules that take gradients at another point than the one that is saved: `saved` puts the masters, rounded, into the
/// weights, to evaluate or to write a model; `computing` restores the weights that a step leaves, to the bit. A state that was
/// read from a checkpoint needs `computing` before its first step. Other rules: nothing changes.
enum class WeightPoint : uint8_t { saved, computing };
void put_weights_at(const UpdatePass&, WeightPoint);

}  // namespace tern
