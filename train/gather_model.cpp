#include "train/gather_model.h"

#include <cstring>

#include "train/tensor_state.h"

namespace tern {

void gather_model(const ModelSpec& spec, const RankPlace& place, DType dtype, const UpdatePass& pass, Comm& world,
                  ModelWeights& whole) {
  const OptimizerState& state = pass.state;
  std::vector<Tensor*> to;
  if (world.rank() == 0) {
    to = trained_tensors(spec, whole);
    size_t next = 0;
    for_each_fixed(spec, whole, [&](const ParameterInfo&, Tensor& t) {
      const Tensor& own = state.fixed[next++];
      std::memcpy(t.data(), own.data(), static_cast<size_t>(own.bytes()));
    });
  }
  std::vector<StateTensor> weights;
  for (size_t p = 0; p < state.infos.size(); ++p)
    weights.push_back({.name = "model." + state.infos[p].name,
                       .dtype = dtype,
                       .shape = state.infos[p].shape,
                       .own = own_part(state.shares, p, state.forms[p].elements(), pass.weights[p]),
                       .owners = state.shares.keepers(p)});
  weights = in_parts(std::move(weights), spec, place.tensor);
  for (size_t p = 0; p < weights.size(); ++p) gather_to_first(world, weights[p], world.rank() == 0 ? *to[p] : Tensor());
}

}  // namespace tern
