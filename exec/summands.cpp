#include "exec/summands.h"

#include <algorithm>

#include "base/error.h"
#include "model/allocate_weights.h"
#include "model/visit_weights.h"

namespace tern {

bool is_summand(const Buffer& b) { return b.kind == BufferKind::summand || b.kind == BufferKind::summand_experts; }

void Summands::begin(const BufferBytes& b) {
  std::vector<Tensor>& tensors = alive.emplace_back(b.buffer, std::vector<Tensor>{}).second;
  const DType wide = parts.wide();
  Tensor left = in.compute.arena.zeros(wide, {b.bytes / size_of(wide)}, MemoryClass::activations);
  for (const size_t p : parts.parameters_of(scatter_of(b.buffer))) {
    const Shape& shape = in.update->state.infos[p].shape;
    tensors.push_back(left.rows_view(0, shape.count()).reshaped(shape));
    left = left.rows_view(shape.count(), left.count());
  }
  TERN_CHECK(left.count() == 0, "execute: {}: {} elements too many", to_string(b.buffer), left.count());
}

void Summands::put_before(const Instruction& i) {
  for (const auto& [buffer, tensors] : alive)
    if (buffer.micro == i.micro && buffer.unit <= i.unit && i.unit < end_of_layer(buffer.unit)) put(buffer, tensors);
}

void Summands::end(const Buffer& b) {
  const auto at = std::ranges::find(alive, b, &std::pair<Buffer, std::vector<Tensor>>::first);
  put(b, std::vector<Tensor>(at->second.size()));
  alive.erase(at);
}

const std::vector<Tensor>& Summands::of(const Instruction& i) const {
  const auto kind = i.axis == MeshAxis::expert_replicas ? BufferKind::summand_experts : BufferKind::summand;
  const auto at =
      std::ranges::find(alive, Buffer{kind, i.unit, i.micro}, &std::pair<Buffer, std::vector<Tensor>>::first);
  TERN_CHECK(at != alive.end(), "execute: {}: no gradients of its own", to_string(i));
  return at->second;
}

Instruction Summands::scatter_of(const Buffer& b) {
  return {.op = Opcode::scatter,
          .unit = b.unit,
          .axis = b.kind == BufferKind::summand ? MeshAxis::replicas : MeshAxis::expert_replicas};
}

Tensor& Summands::summed_place(const Instruction& scatter, size_t parameter) {
  if (summed.empty()) summed = trained_tensors(in.spec, *in.gradients);
  const bool copy =
      parameter == 0 && scatter.unit > 0 && parts.holds_table_copy(scatter.unit, end_of_layer(scatter.unit));
  return copy ? dense_rows(head_of(*in.gradients).projection) : *summed[parameter];
}

int Summands::end_of_layer(int first) const {
  const auto layer = std::ranges::find(parts.layers, first, &Layer::first);
  return layer->first + layer->count;
}

void Summands::put(const Buffer& b, const std::vector<Tensor>& tensors) {
  const Instruction scatter = scatter_of(b);
  const std::vector<size_t> places = parts.parameters_of(scatter);
  for (size_t k = 0; k < places.size(); ++k) summed_place(scatter, places[k]) = tensors[k];
  share_norms(in.spec, *in.gradients);
}

}  // namespace tern
