#include "train/outer_run.h"

#include <fmt/format.h>

#include <cstring>

#include "base/wide_type.h"
#include "model/visit_weights.h"
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

std::vector<OuterFragment> outer_fragments(const ModelSpec& spec, const OuterConfig& c) {
  std::vector<OuterFragment> fragments(static_cast<size_t>(c.fragments));
  for (const ParameterInfo& info : trained_parameters(spec))
    fragments[static_cast<size_t>(fragment_of(info.unit, static_cast<int>(spec.units.size()), c.fragments))].push_back(
        info.shape);
  return fragments;
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
  const auto rows = [&](std::string_view prefix, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i)
      list.push_back(rows_of(fmt::format("{}.{}", prefix, o.infos[i].name), wide, tensors[i].count(), tensors[i],
                             o.shares.rank, outer.ranks));
  };
  whole("model", outer.common);
  if (outer.pairs) {  // read after "model.NAME", which is the first rank's
    rows("common", outer.common), rows("outer-momentum", outer.momentum), rows("outer-pending", outer.pending);
  } else {
    whole("outer-momentum", outer.momentum), whole("outer-pending", outer.pending);
  }
  const auto factors = [&](std::string_view prefix, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i)
      if (!tensors[i].empty())
        list.push_back({fmt::format("{}.{}", prefix, o.infos[i].name), wide, tensors[i].shape(), tensors[i]});
  };
  factors("outer-left", outer.left), factors("outer-right", outer.right);
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
    if (outer.sum_error.empty()) continue;
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

void predict_outer(const ModelSpec& spec, const TrainSettings& s, int64_t one_rank, PredictedMemory& predicted) {
  const DType wide = wide_type(s.dtype);
  const OuterConfig& c = *s.outer;
  const std::vector<OuterFragment> fragments = outer_fragments(spec, c);
  predicted.optimizer += outer_state_bytes(c, fragments, s.ranks, wide);
  predicted.messages = outer_staging_bytes(c, fragments, s.ranks, wide);
  int64_t elements = 0;
  for (const OuterFragment& fragment : fragments) elements += elements_in(fragment);
  // In a checkpoint what all ranks have alike stands once.
  const int64_t kept = 1 + (c.momentum > 0) + (c.delay > 0);
  int64_t numbers = (c.pairs ? 1 + s.ranks * kept : kept) * elements + outer_factor_elements(c, fragments);
  if (c.codec != OuterCodec::none) numbers += (s.ranks + is_in_codes(c.codec)) * elements;
  predicted.staging = num_fixed_numbers(spec) * size_of(wide) + s.ranks * one_rank + numbers * size_of(wide);
}

}  // namespace tern
