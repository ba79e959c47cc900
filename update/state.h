#pragma once
// The optimizer's state over a model's parameters: master weights, and what the update rule keeps of each.

#include <cstdint>
#include <string>
#include <vector>

#include "model/visit_weights.h"
#include "model/weights.h"
#include "spec/update_rule.h"
#include "tensor/arena.h"
#include "update/robust_step.h"
#include "update/shares.h"

namespace tern {

/// One entry per trained_parameters(spec), in their order. master: f32 (f64 for f64 models), the very tensors of the weights
/// unless has_own_masters. slots: per slot of the rule's row one tensor per parameter, empty where nothing is kept. Of a parameter
/// that is shared out, master and slots (slot_part) hold this rank's interval, as one row of numbers; empty where it has none.
struct OptimizerState {
  Shares shares{};
  std::vector<ParameterInfo> infos;
  std::vector<ParameterForm> forms;
  std::vector<Tensor> master;
  std::vector<std::vector<Tensor>> slots;
  std::vector<std::string>
      fixed_names;  // names of `fixed`: the tensors that no update changes, shared with the weights
  std::vector<Tensor> fixed;
  RobustState robust{};  // of runs whose gradients are aggregated
};

/// The part of a slot that belongs to an interval of a parameter: the whole slot, if the interval is the whole parameter.
Interval slot_part(const UpdateConfig&, const StateSlot&, const ParameterForm&, const Interval& elements);

/// The parameter's form, as the update rule sees it.
ParameterForm form_of(const ModelSpec&, const ParameterInfo&);
/// Appends a parameter: its master and its slots, or this rank's part of them if it is shared out.
void add_parameter(OptimizerState&, const ParameterInfo&, const ParameterForm&, const Tensor& weight,
                   const UpdateConfig&, Arena&);
/// Makes slots of zeros, and masters: the weights' own tensors, or separate ones widened from the weights. Whoever has f32
/// values writes them into the masters and calls round_masters. Bytes: MemoryClass::optimizer, as many as
/// spec/update_rule.h's state_bytes.
OptimizerState make_optimizer_state(const ModelSpec&, ModelWeights&, const UpdateConfig&, Arena&, Shares = {});
/// Rounds a master into its weight, of any float type. Does nothing where the weight is the master.
void round_master(const Tensor& master, const Tensor& weight);
/// The same for every master, or this rank's part of it.
void round_masters(const ModelSpec&, const OptimizerState&, ModelWeights&);

}  // namespace tern
