#include "exec/collective_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/wide_type.h"
#include "model/tensor_parts.h"
#include "model/tensor_ranks.h"
#include "model/visit_weights.h"
#include "update/norm.h"
#include "update/update_unit.h"

namespace tern {
namespace {

// The places of the parameters of units [first, end) that are wanted.
template <class Wanted>
std::vector<size_t> places_of(const UpdatePass& update, int first, int end, Wanted wanted) {
  std::vector<size_t> list;
  const std::vector<ParameterInfo>& infos = update.state.infos;
  for (size_t p = 0; p < infos.size(); ++p)
    if (infos[p].unit >= first && infos[p].unit < end && wanted(p)) list.push_back(p);
  return list;
}

// Of an entry for each replica, those of the replicas that a collective over this axis is over.
template <class T>
std::vector<T> of_axis(const Shares& shares, MeshAxis axis, std::vector<T> all) {
  if (axis != MeshAxis::expert_replicas || shares.expert_ranks == 1) return all;
  std::vector<T> own;
  for (auto r = static_cast<size_t>(shares.rank % shares.expert_ranks); r < all.size();
       r += static_cast<size_t>(shares.expert_ranks))
    own.push_back(std::move(all[r]));
  return own;
}

std::vector<int64_t> bytes_of(const RankParts& parts) {
  std::vector<int64_t> bytes(parts.size());
  for (size_t rank = 0; rank < parts.size(); ++rank)
    for (const Tensor& t : parts[rank]) bytes[rank] += t.bytes();
  return bytes;
}

}  // namespace

DType CollectiveParts::wide() const { return wide_type(weight_type(*in.update)); }

std::vector<size_t> CollectiveParts::parameters_of(int unit) const {
  return places_of(*in.update, unit, unit + 1, [](size_t) { return true; });
}

std::vector<size_t> CollectiveParts::parameters_of(const Instruction& i) const {
  const auto layer = std::ranges::find(layers, i.unit, &Layer::first);
  TERN_CHECK(layer != layers.end(), "execute: {}: no layer begins there", to_string(i));
  const bool experts = i.axis == MeshAxis::expert_replicas;
  const int end = layer->first + layer->count;
  const OptimizerState& state = in.update->state;
  const auto wanted = [&](size_t p) {
    return is_expert(state.infos[p]) == experts && (!experts || state.shares.held.empty() || state.shares.held[p]);
  };
  std::vector<size_t> places = places_of(*in.update, layer->first, end, wanted);
  const bool reads_table = i.op == Opcode::gather && i.micro >= 0 && !experts && i.unit > 0 &&
                           end == program.num_units && in.spec.head().tied;
  if (reads_table || holds_table_copy(i.unit, end)) places.insert(places.begin(), 0);
  return places;
}

bool CollectiveParts::holds_table_copy(int first, int end) const {
  return pipelined() && first > 0 && end == program.num_units && in.spec.head().tied && in.tables->size() > 1;
}

Comm& CollectiveParts::group_of(MeshAxis axis) const {
  if (axis == MeshAxis::tables) return *in.tables;
  if (axis == MeshAxis::tensor) return in.compute.tensor->comm;
  if (axis == MeshAxis::keys) return *in.compute.tensor->same_keys;
  if (axis == MeshAxis::expert_replicas && in.same_experts) return *in.same_experts;
  return axis == MeshAxis::replicas || axis == MeshAxis::expert_replicas ? replicas() : *in.world;
}

RankParts CollectiveParts::parts_for(MeshAxis axis, std::span<const size_t> places,
                                     std::span<const Tensor> tensors) const {
  const Shares& shares = in.update->state.shares;
  const auto is_shared = [&](size_t p) { return shares.is_shared(p); };
  TERN_CHECK(places.empty() || std::ranges::any_of(places, is_shared),
             "exec: parts of a layer that every rank keeps whole");
  return of_axis(shares, axis, parts_of(shares, places, tensors));
}

std::vector<int64_t> CollectiveParts::bytes_of_parts(const Instruction& i) const {
  if (i.op == Opcode::reduce && i.axis == MeshAxis::all) return bytes_of(even_parts(in.update->gradients, num_ranks()));
  if (i.axis == MeshAxis::none || i.op == Opcode::reduce) return {};
  if (i.op == Opcode::norm)
    return in.update->tensor ? std::vector<int64_t>(static_cast<size_t>(num_ranks()), int64_t{sizeof(double)})
                             : norm_value_bytes(*in.update, num_ranks());
  const Shares& shares = in.update->state.shares;
  if (!shares.any()) return {};
  if (i.op == Opcode::update) {
    std::vector<size_t> places = parameters_of(i.unit);
    if (holds_table_copy(i.unit, i.unit + 1)) places.insert(places.begin(), 0);
    return update_value_bytes(*in.update, places, shares.ranks);
  }
  std::vector<int64_t> bytes(static_cast<size_t>(shares.ranks));
  const int64_t size = size_of(i.op == Opcode::gather ? weight_type(*in.update) : wide());
  for (const size_t p : parameters_of(i))
    for (const RankInterval& o : shares.owners[p]) bytes[static_cast<size_t>(o.rank)] += o.elements.size() * size;
  return of_axis(shares, i.axis, std::move(bytes));
}

}  // namespace tern
