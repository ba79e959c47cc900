#pragma once
// The optimizer's state for a model's parameters: master weights, and what the update rule keeps of each parameter.

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

/// Entries are in the order of trained_parameters(spec). master: f32 (f64 for f64 models); unless has_own_masters, the very tensors of the
/// weights. slots: for each slot of the rule's row one tensor per parameter, empty where nothing is kept. Of a parameter that is shared
/// out, master and slots (slot_part) hold this rank's interval as one row of numbers. They are empty if this rank keeps no element of it.
struct OptimizerState {
  Shares shares{};
  std::vector<ParameterInfo> infos;
  std::vector<ParameterForm> forms;
  std::vector<Tensor> master;
  std::vector<std::vector<Tensor>> slots;
  std::vector<std::string>
      fixed_names;  // names of `fixed`: the tensors that no update changes, shared with the weights
  std::vector<Tensor> fixed;
  RobustState robust{};  // of runs that aggregate gradients (update/robust_step.h)
};

/// The part of a slot that belongs to an interval of a parameter. It is the whole slot if the interval is the whole parameter.
Interval slot_part(const UpdateConfig&, const StateSlot&, const ParameterForm&, const Interval& elements);

/// The parameter's kind and size, as update rules need them.
ParameterForm form_of(const ModelSpec&, const ParameterInfo&);
/// Appends a parameter: its master and its slots, or only this rank's part of them if the parameter is shared out.
void add_parameter(OptimizerState&, const ParameterInfo&, const ParameterForm&, const Tensor& weight,
                   const UpdateConfig&, Arena&);
/// Makes slots of zeros, and masters: the weights' own tensors, or separate ones widened from the weights. A caller that has f32
/// values writes them into the masters, then calls round_masters. Bytes: MemoryClass::optimizer, as many as state_bytes in
/// spec/update_rule.h says.
OptimizerState make_optimizer_state(const ModelSpec&, ModelWeights&, const UpdateConfig&, Arena&, Shares = {});
/// Rounds a master into its weight, of any float type. Does nothing where the weight is the master.
void round_master(const Tensor& master, const Tensor& weight);
/// round_master for every parameter, or for this rank's part of it.
void round_masters(const ModelSpec&, const OptimizerState&, ModelWeights&);

}  // namespace tern
