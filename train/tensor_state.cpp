#include "train/tensor_state.h"

#include <algorithm>

#include "base/error.h"
#include "model/tensor_parts.h"

namespace tern {

std::vector<StateTensor> in_parts(std::vector<StateTensor> list, const ModelSpec& whole, const TensorPlace& at) {
  if (at.ranks == 1) return list;
  const std::vector<ParameterInfo> infos = trained_parameters(whole);
  for (StateTensor& t : list) {
    const auto info = std::ranges::find(infos, t.name.substr(t.name.find('.') + 1), &ParameterInfo::name);
    TERN_CHECK(info != infos.end(), "train: state '{}' of no parameter", t.name);
    t.shape = info->shape;
    for (int r = 0; r < at.ranks; ++r) t.parts.push_back(tensor_holding(whole, *info, r, at.ranks));
  }
  return list;
}

void gather_parts_to_first(Comm& world, const StateTensor& t, const Tensor& whole) {
  const auto ranks = static_cast<int>(t.parts.size()), rank = world.rank();
  std::vector<Tensor> send(static_cast<size_t>(world.size())), receive(send.size());
  std::vector<std::vector<std::byte>> arrived(send.size());
  if (rank > 0 && rank < ranks) send[0] = t.own;
  if (rank == 0)
    for (int r = 1; r < ranks; ++r) {
      const auto at = static_cast<size_t>(r);
      arrived[at].resize(static_cast<size_t>(t.own.bytes()));
      receive[at] = Tensor::borrow(t.dtype, t.own.shape(), arrived[at].data());
    }
  world.all_to_all(send, receive);
  if (rank > 0) return;
  receive[0] = t.own;
  for (int r = 0; r < ranks; ++r) put_part(t.parts[static_cast<size_t>(r)], receive[static_cast<size_t>(r)], whole);
}

}  // namespace tern
