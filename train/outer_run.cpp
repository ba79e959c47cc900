#include "train/outer_run.h"

#include <fmt/format.h>

#include <cstring>

#include "base/wide_type.h"
#include "spec/layout.h"

namespace tern {
namespace {

// A row of each rank; `own` is that of `rank`.
StateTensor rows_of(std::string name, DType dtype, int64_t elements, const Tensor& own, int rank, int ranks) {
  StateTensor t{std::move(name), dtype, Shape{ranks, elements}, own};
  t.begin = rank * elements;
  for (int r = 0; r < ranks; ++r) t.owners.push_back({r, {r * elements, (r + 1) * elements}});
  return t;
}

}  // namespace

std::vector<int64_t> outer_fragments(const ModelSpec& spec, const OuterConfig& c) {
  std::vector<int64_t> elements(static_cast<size_t>(c.fragments));
  for (const ParameterInfo& info : trained_parameters(spec))
    elements[static_cast<size_t>(fragment_of(info.unit, static_cast<int>(spec.units.size()), c.fragments))] +=
        info.shape.count();
  return elements;
}

OuterState outer_state_of(const ModelSpec& spec, const TrainSettings& s, const OptimizerState& o, Arena& arena) {
  std::vector<int> units;
  for (const ParameterInfo& info : o.infos) units.push_back(info.unit);
  return make_outer_state(*s.outer, o.master, units, static_cast<int>(spec.units.size()), o.shares.rank, s.ranks,
                          arena);
}

std::vector<StateTensor> outer_tensors(const UpdateConfig& config, DType dtype, const OptimizerState& o,
                                       const OuterState& outer) {
  const DType wide = wide_type(dtype);
  std::vector<StateTensor> list;
  const auto whole = [&](std::string_view prefix, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i)
      list.push_back({fmt::format("{}.{}", prefix, o.infos[i].name), wide, o.infos[i].shape, tensors[i]});
  };
  whole("model", outer.common), whole("outer-momentum", outer.momentum), whole("outer-pending", outer.pending);
  for (size_t i = 0; i < o.infos.size(); ++i)
    list.push_back(
        rows_of("replica." + o.infos[i].name, wide, o.forms[i].elements(), o.master[i], o.shares.rank, outer.ranks));
  const std::vector<StateSlot>& slots = row_of(config.rule).slots;
  for (size_t slot = 0; slot < slots.size(); ++slot)
    for (size_t i = 0; i < o.infos.size(); ++i)
      if (const int64_t elements = slot_elements(config, slots[slot], o.forms[i]); elements > 0)
        list.push_back(rows_of(fmt::format("{}.{}", slots[slot].name, o.infos[i].name), slots[slot].type.value_or(wide),
                               elements, o.slots[slot][i], o.shares.rank, outer.ranks));
  for (size_t f = 0; f < outer.error.size(); ++f) {
    const int64_t elements = outer.error[f].count();
    list.push_back(
        rows_of(fmt::format("outer-error.{}", f), wide, elements, outer.error[f], o.shares.rank, outer.ranks));
    StateTensor sums{fmt::format("outer-sum-error.{}", f), wide, Shape{elements}, outer.sum_error[f]};
    sums.begin = part_of(elements, o.shares.rank, outer.ranks).begin;
    for (int r = 0; r < outer.ranks; ++r)
      if (const Interval part = part_of(elements, r, outer.ranks); part.size() > 0) sums.owners.push_back({r, part});
    list.push_back(std::move(sums));
  }
  for (size_t i = 0; i < o.fixed.size(); ++i)
    list.push_back({"model." + o.fixed_names[i], o.fixed[i].dtype(), o.fixed[i].shape(), o.fixed[i]});
  return list;
}

void put_common(const ModelSpec& spec, const OptimizerState& o, const OuterState& outer, ModelWeights& whole) {
  const std::vector<Tensor*> trained = trained_tensors(spec, whole);
  for (size_t p = 0; p < trained.size(); ++p) round_master(outer.common[p], *trained[p]);
  size_t next = 0;
  for_each_fixed(spec, whole, [&](const ParameterInfo&, Tensor& t) {
    const Tensor& own = o.fixed[next++];
    std::memcpy(t.data(), own.data(), static_cast<size_t>(own.bytes()));
  });
}

void predict_outer(const ModelSpec& spec, const TrainSettings& s, int64_t one_rank, MemoryPlan& plan) {
  const DType wide = wide_type(s.dtype);
  const std::vector<int64_t> fragments = outer_fragments(spec, *s.outer);
  plan.optimizer += outer_state_bytes(*s.outer, fragments, s.ranks, wide);
  plan.messages = outer_staging_bytes(*s.outer, fragments, s.ranks, wide);
  int64_t elements = 0;
  for (const int64_t n : fragments) elements += n;
  // In a checkpoint what all ranks have alike stands once.
  const bool coded = s.outer->codec != OuterCodec::none;
  const int64_t alike = 1 + (s.outer->momentum > 0) + (s.outer->delay > 0) + coded;
  plan.staging = num_fixed_numbers(spec) * size_of(wide) +
                 s.ranks * (one_rank + (coded ? elements : 0) * size_of(wide)) + alike * elements * size_of(wide);
}

}  // namespace tern
