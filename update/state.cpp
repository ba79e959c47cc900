#include "update/state.h"

#include <cstring>

#include "base/error.h"
#include "kernels/cpu/vector.h"
#include "model/visit_weights.h"

namespace tern {
namespace {

Tensor slot_tensor(const UpdateConfig& config, const StateSlot& slot, const Tensor& master, const ParameterForm& form,
                   const Interval& mine, Arena& arena) {
  const int64_t elements = slot_part(config, slot, form, mine).size();
  if (elements == 0) return {};
  const Shape shape = elements == master.count() ? master.shape() : Shape{elements};
  return arena.zeros(slot.type.value_or(master.dtype()), shape, MemoryClass::optimizer);
}

Tensor widened(const Tensor& weight, Arena& arena) {
  const bool narrow = weight.dtype() == DType::bf16;
  const Tensor master = arena.allocate(narrow ? DType::f32 : weight.dtype(), weight.shape(), MemoryClass::optimizer);
  if (narrow)
    convert(std::span<const bf16>(weight.span<bf16>()), master.span<float>());
  else
    std::memcpy(master.data(), weight.data(), static_cast<size_t>(master.bytes()));
  return master;
}

}  // namespace

Interval slot_part(const UpdateConfig& config, const StateSlot& slot, const ParameterForm& form,
                   const Interval& elements) {
  if (elements.size() == 0) return {};
  if (elements.size() == form.elements()) return {0, slot_elements(config, slot, form)};
  const auto [begin, end] = slot_interval(config, slot, form, elements.begin, elements.end);
  return {begin, end};
}

ParameterForm form_of(const ModelSpec& spec, const ParameterInfo& info) {
  const Unit& unit = spec.units[static_cast<size_t>(info.unit)];
  if (info.shape.rank < 2) return {ParameterKind::vector, 1, info.shape.count()};
  const bool table = std::holds_alternative<EmbedSpec>(unit.spec) || std::holds_alternative<HeadSpec>(unit.spec);
  return {table ? ParameterKind::table : ParameterKind::matrix, info.shape[0], info.shape[1]};
}

void add_parameter(OptimizerState& state, const ParameterInfo& info, const ParameterForm& form, const Tensor& weight,
                   const UpdateConfig& config, Arena& arena) {
  const std::vector<StateSlot>& slots = row_of(config.rule).slots;
  state.slots.resize(slots.size());
  const size_t place = state.infos.size();
  const Interval mine = state.shares.mine(place, form.elements());
  const Tensor own = mine.size() > 0 ? own_part(state.shares, place, form.elements(), weight) : Tensor();
  state.infos.push_back(info);
  state.forms.push_back(form);
  state.master.push_back(!own.empty() && has_own_masters(config, own.dtype()) ? widened(own, arena) : own);
  for (size_t s = 0; s < slots.size(); ++s)
    state.slots[s].push_back(slot_tensor(config, slots[s], state.master.back(), form, mine, arena));
}

OptimizerState make_optimizer_state(const ModelSpec& spec, ModelWeights& weights, const UpdateConfig& config,
                                    Arena& arena, Shares shares) {
  OptimizerState state{.shares = std::move(shares)};
  const std::vector<ParameterInfo> infos = trained_parameters(spec);
  const std::vector<Tensor*> all = trained_tensors(spec, weights);
  TERN_CHECK(all.size() == infos.size(), "optimizer: {} tensors of {} parameters", all.size(), infos.size());
  for (size_t i = 0; i < all.size(); ++i)
    add_parameter(state, infos[i], form_of(spec, infos[i]), *all[i], config, arena);
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    state.fixed_names.push_back(info.name);
    state.fixed.push_back(t);
  });
  return state;
}

void round_master(const Tensor& master, const Tensor& weight) {
  if (weight.dtype() == DType::bf16)
    convert(std::span<const float>(master.span<float>()), weight.span<bf16>());
  else if (weight.data() != master.data())
    std::memcpy(weight.data(), master.data(), static_cast<size_t>(weight.bytes()));
}

void round_masters(const ModelSpec& spec, const OptimizerState& state, ModelWeights& weights) {
  const std::vector<Tensor*> all = trained_tensors(spec, weights);
  for (size_t i = 0; i < all.size(); ++i)
    if (!state.master[i].empty())
      round_master(state.master[i], own_part(state.shares, i, state.forms[i].elements(), *all[i]));
}

}  // namespace tern
