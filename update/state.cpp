#include "update/state.h"

#include "base/error.h"
#include "kernels/cpu/vector.h"

namespace tern {
namespace {

Tensor slot_tensor(const UpdateConfig& config, const StateSlot& slot, const Tensor& master, const ParameterForm& form,
                   Arena& arena) {
  const int64_t elements = slot_elements(config, slot, form);
  if (elements == 0) return {};
  const Shape shape = elements == form.elements() ? master.shape() : Shape{elements};
  return arena.zeros(slot.type.value_or(master.dtype()), shape, MemoryClass::optimizer);
}

}  // namespace

ParameterForm form_of(const ModelSpec& spec, const ParameterInfo& info) {
  const Unit& unit = spec.units[static_cast<size_t>(info.unit)];
  if (info.shape.rank < 2) return {ParameterKind::vector, 1, info.shape.count()};
  const bool table = std::holds_alternative<EmbedSpec>(unit.spec) || std::holds_alternative<HeadSpec>(unit.spec);
  return {table ? ParameterKind::table : ParameterKind::matrix, info.shape[0], info.shape[1]};
}

OptimizerState make_optimizer_state(const ModelSpec& spec, ModelWeights& weights, const UpdateConfig& config,
                                    Arena& arena) {
  OptimizerState state;
  state.infos = trained_parameters(spec);
  const std::vector<StateSlot>& slots = row_of(config.rule).slots;
  state.slots.resize(slots.size());
  for (const Tensor* weight : trained_tensors(spec, weights)) {
    state.forms.push_back(form_of(spec, state.infos[state.forms.size()]));
    const bool rounded = weight->dtype() == DType::bf16;
    state.master.push_back(rounded ? arena.allocate(DType::f32, weight->shape(), MemoryClass::optimizer) : *weight);
    if (rounded) convert(std::span<const bf16>(weight->span<bf16>()), state.master.back().span<float>());
    for (size_t s = 0; s < slots.size(); ++s)
      state.slots[s].push_back(slot_tensor(config, slots[s], state.master.back(), state.forms.back(), arena));
  }
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    state.fixed_names.push_back(info.name);
    state.fixed.push_back(t);
  });
  return state;
}

void round_masters(const ModelSpec& spec, const OptimizerState& state, ModelWeights& weights) {
  const std::vector<Tensor*> all = trained_tensors(spec, weights);
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->dtype() == DType::bf16)
      convert(std::span<const float>(state.master[i].span<float>()), all[i]->span<bf16>());
}

}  // namespace tern
