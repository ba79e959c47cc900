#include "exec/gathered_weights.h"

#include <cstring>

#include "base/error.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"

namespace tern {

bool is_gathered(const Buffer& b) { return b.kind == BufferKind::gathered || b.kind == BufferKind::gathered_experts; }

void GatheredWeights::gather(const Instruction& i) {
  if (read.empty()) read = trained_tensors(in.spec, *in.own_weights);
  const Shares& shares = in.update->state.shares;
  const std::vector<size_t> places = parts.parameters_of(i);
  std::vector<Tensor> whole;
  {
    const DType dtype = weight_type(*in.update);
    Tensor left = in.compute.arena.allocate(dtype, {i.message_bytes / size_of(dtype)}, MemoryClass::activations);
    for (const size_t p : places) {
      const Shape& shape = in.update->state.infos[p].shape;
      const Tensor &all = whole.emplace_back(left.rows_view(0, shape.count()).reshaped(shape)),
                   &own = in.update->weights[p];
      if (!own.empty())
        std::memcpy(own_part(shares, p, shape.count(), all).data(), own.data(), static_cast<size_t>(own.bytes()));
      left = left.rows_view(shape.count(), left.count());
    }
    TERN_CHECK(left.count() == 0, "execute: {}: {} elements too many", to_string(i), left.count());
  }
  parts.group_of(i.axis).all_gather(parts.parts_for(i.axis, places, whole));
  for (size_t k = 0; k < places.size(); ++k) *read[places[k]] = whole[k];
  share_storage(in.spec, *in.own_weights);
}

void GatheredWeights::end(const Buffer& b) {
  const Instruction i{.op = Opcode::gather,
                      .unit = b.unit,
                      .micro = b.micro,
                      .axis = b.kind == BufferKind::gathered ? MeshAxis::replicas : MeshAxis::expert_replicas};
  for (const size_t p : parts.parameters_of(i)) *read[p] = in.update->weights[p];
  share_storage(in.spec, *in.own_weights);
}

void GatheredWeights::require_whole(const Instruction& pass) const {
  if (!in.update || in.update->state.shares.weights_apart.empty()) return;
  const OptimizerState& state = in.update->state;
  std::vector<size_t> places = parts.parameters_of(pass.unit);
  const bool head = pass.unit == static_cast<int>(in.spec.units.size()) - 1;
  if (head && in.spec.head().tied) places.push_back(0);  // the table
  for (const size_t p : places) {
    const bool apart = state.shares.weights_apart[state.infos[p].unit];
    if (!apart || (!state.shares.held.empty() && !state.shares.held[p])) continue;
    TERN_CHECK(!read.empty() && read[p]->count() == state.infos[p].shape.count(),
               "execute: {}: its weights have not come together", to_string(pass));
  }
}

}  // namespace tern
