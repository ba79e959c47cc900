#include "train/state_tensors.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/wide_type.h"
#include "spec/layout.h"
#include "train/outer_run.h"
#include "train/tensor_state.h"

namespace tern {
namespace {

// A rank's momentum is a row of all ranks', the centre is cut over them.
void add_robust(const OptimizerState& o, DType wide, std::vector<StateTensor>& list) {
  const int ranks = o.shares.ranks;
  int64_t all = 0;
  for (size_t i = 0; i < o.robust.momentum.size(); ++i) {
    const int64_t elements = o.forms[i].elements();
    StateTensor t{"local-momentum." + o.infos[i].name, wide, Shape{ranks, elements}, o.robust.momentum[i]};
    t.begin = o.shares.rank * elements;
    for (int r = 0; r < ranks; ++r) t.owners.push_back({r, {r * elements, (r + 1) * elements}});
    list.push_back(std::move(t));
  }
  if (o.robust.centre.empty()) return;
  for (const ParameterForm& form : o.forms) all += form.elements();
  StateTensor centre{"aggregate.centre", wide, Shape{all}, o.robust.centre};
  for (int r = 0; r < ranks; ++r)
    if (const Interval part = part_of(all, r, ranks); part.size() > 0) centre.owners.push_back({r, part});
  centre.begin = part_of(all, o.shares.rank, ranks).begin;
  list.push_back(std::move(centre));
}

}  // namespace

std::vector<StateTensor> state_tensors(const UpdateConfig& config, DType dtype, const OptimizerState& o) {
  const DType wide = wide_type(dtype);
  const std::vector<StateSlot>& slots = row_of(config.rule).slots;
  std::vector<StateTensor> list;
  for (size_t i = 0; i < o.infos.size(); ++i)
    list.push_back({"model." + o.infos[i].name, wide, o.infos[i].shape, o.master[i], o.shares.keepers(i),
                    o.shares.mine(i, o.forms[i].elements()).begin});
  for (size_t s = 0; s < slots.size(); ++s)
    for (size_t i = 0; i < o.infos.size(); ++i) {
      const int64_t elements = slot_elements(config, slots[s], o.forms[i]);
      if (elements == 0) continue;
      StateTensor t{std::string(slots[s].name) + "." + o.infos[i].name, slots[s].type.value_or(wide),
                    elements == o.forms[i].elements() ? o.infos[i].shape : Shape{elements}, o.slots[s][i]};
      for (const RankInterval& owner : o.shares.keepers(i))
        t.owners.push_back({owner.rank, slot_part(config, slots[s], o.forms[i], owner.elements)});
      t.begin = slot_part(config, slots[s], o.forms[i], o.shares.mine(i, o.forms[i].elements())).begin;
      list.push_back(std::move(t));
    }
  add_robust(o, wide, list);
  for (size_t i = 0; i < o.fixed.size(); ++i)
    list.push_back({"model." + o.fixed_names[i], o.fixed[i].dtype(), o.fixed[i].shape(), o.fixed[i]});
  return list;
}

std::vector<StateTensor> state_tensors(const TrainSettings& s, const TrainState& state) {
  if (state.outer) return outer_tensors(s.optimizer, s.dtype, state.optimizer, *state.outer);
  std::vector<StateTensor> list = state_tensors(s.optimizer, s.dtype, state.optimizer);
  for (const NamedTensor& t : state.beside) list.push_back({t.name, t.tensor.dtype(), t.tensor.shape(), t.tensor});
  return list;
}

void gather_to_first(Comm& world, const StateTensor& t, const Tensor& whole) {
  if (!t.parts.empty()) return gather_parts_to_first(world, t, whole);
  if (t.owners.empty()) {
    if (world.rank() != 0) return;
    TERN_CHECK(t.own.bytes() == whole.bytes(), "{}: {} bytes for a tensor of {}", t.name, t.own.bytes(), whole.bytes());
    std::memcpy(whole.data(), t.own.data(), static_cast<size_t>(whole.bytes()));
    return;
  }
  std::vector<Tensor> send(static_cast<size_t>(world.size())), receive(send.size());
  if (std::ranges::count(t.owners, world.rank(), &RankInterval::rank) > 0) send[0] = t.own;
  if (world.rank() == 0)
    for (const RankInterval& o : t.owners)
      receive[static_cast<size_t>(o.rank)] =
          whole.reshaped({whole.count()}).rows_view(o.elements.begin, o.elements.end);
  world.all_to_all(send, receive);
}

}  // namespace tern
