#include "exec/layer_sum.h"

#include "base/error.h"

namespace tern {
namespace {

template <class T>
void add_part(std::span<const T> part, std::span<T> earlier) {
  for (size_t i = 0; i < earlier.size(); ++i) earlier[i] = part[i] + earlier[i];
}

}  // namespace

void LayerSum::exchange() const { parts.empty() ? group.all_reduce_sum(whole) : group.reduce_scatter_sum(parts); }

void LayerSum::add() const {
  for (const auto& [part, earlier] : added)
    if (earlier.dtype() == DType::f32)
      add_part<float>(part.span<float>(), earlier.span<float>());
    else
      add_part<double>(part.span<double>(), earlier.span<double>());
}

LayerSum layer_sum(const Instruction& i, const ExecuteInput& in, const CollectiveParts& of, const Summands& summands) {
  const std::vector<size_t> places = of.parameters_of(i);
  const std::vector<Tensor>& sums = in.update->gradients;
  LayerSum s{of.group_of(i.axis)};
  const Shares& shares = in.update->state.shares;
  if (i.op == Opcode::reduce) {
    for (const size_t p : places)
      TERN_CHECK(shares.gradients_apart.empty() || !shares.gradients_apart[in.update->state.infos[p].unit],
                 "execute: {}: each rank has other gradients of it", to_string(i));
    s.whole = at_places(sums, places);
    return s;
  }
  const bool of_one = i.micro >= 0;  // micro-batch
  const std::vector<Tensor> taken = of_one ? summands.of(i) : at_places(sums, places);
  s.parts = of.parts_for(i.axis, places, taken);
  for (size_t k = 0; of_one && k < places.size(); ++k)
    if (const Tensor& earlier = sums[places[k]]; !earlier.empty())
      s.added.emplace_back(own_part(shares, places[k], in.update->state.forms[places[k]].elements(), taken[k]),
                           earlier);
  return s;
}

std::vector<Tensor> at_places(const std::vector<Tensor>& all, const std::vector<size_t>& places) {
  std::vector<Tensor> list;
  for (const size_t p : places) list.push_back(all[p]);
  return list;
}

}  // namespace tern
