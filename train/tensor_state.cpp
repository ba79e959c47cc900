#include "train/tensor_state.h"

#include <algorithm>

#include "base/error.h"
#include "model/tensor_parts.h"
#include "model/visit_weights.h"

namespace tern {

std::vector<StateTensor> in_parts(std::vector<StateTensor> list, const ModelSpec& whole, const TensorPlace& at) {
  if (at.ranks == 1) return list;
  const std::vector<ParameterInfo> infos = trained_parameters(whole);
  for (StateTensor& t : list) {
    const auto info = std::ranges::find(infos, t.name.substr(t.name.find('.') + 1), &ParameterInfo::name);
    TERN_CHECK(info != infos.end(), "train: state '{}' of no parameter", t.name);
    t.part_elements = t.shape.count(), t.shape = info->shape;
    for (int r = 0; r < at.ranks; ++r) t.parts.push_back(tensor_holding(whole, *info, r, at.ranks));
  }
  return list;
}

void gather_parts_to_first(Comm& world, const StateTensor& t, const Tensor& whole) {
  const auto places = static_cast<int>(t.parts.size());
  std::vector<Tensor> send(static_cast<size_t>(world.size())), receive(send.size());
  if (std::ranges::count(t.owners, world.rank(), &RankInterval::rank) > 0) send[0] = t.own;
  std::vector<std::vector<std::byte>> bytes(static_cast<size_t>(places));
  std::vector<Tensor> arrived(bytes.size());
  if (world.rank() == 0)
    for (int place = 0; place < places; ++place) {
      const auto at = static_cast<size_t>(place);
      bytes[at].resize(static_cast<size_t>(t.part_elements * size_of(t.dtype)));
      arrived[at] = Tensor::borrow(t.dtype, {t.part_elements}, bytes[at].data());
      for (const RankInterval& o : t.owners)  // of the first rank's place; the others lie beside them
        receive[static_cast<size_t>(o.rank + place)] = arrived[at].rows_view(o.elements.begin, o.elements.end);
    }
  world.all_to_all(send, receive);
  if (world.rank() > 0) return;
  for (size_t place = 0; place < arrived.size(); ++place) put_part(t.parts[place], arrived[place], whole);
}

}  // namespace tern
