#include "program/layer_collectives.h"

namespace tern {

const LayerParameters& LayerCollectives::parameters(int l) {
  const auto [at, fresh] = parameters_.try_emplace(layer(l).kind);
  if (fresh)
    at->second = layer_parameters(spec_, layer(l), at_.query(layer(l).first, 0), at_.update, at_.mesh, pipelined());
  return at->second;
}

bool LayerCollectives::reduces_each_micro(int l) const {
  return at_.layers[l].strategy.zero >= 2 && (at_.mesh.replicas() > 1 || at_.mesh.expert_replicas() > 1);
}

TierBytes LayerCollectives::resident(int l) {
  const LayerStrategy& s = at_.layers[l].strategy;
  SharedBytes bytes = shared_bytes(at_.job, at_.mesh, parameters(l), s.zero);
  if (at_.updates_in_backward) bytes.gradients = parameters(l).own_gradients * size_of(at_.job.gradients);
  TierBytes resident{};
  resident[0] = bytes.weights + bytes.gradients;
  resident[static_cast<size_t>(s.states)] += bytes.states;
  return resident;
}

TableCopy LayerCollectives::table_copy_of(int u) const {
  return table_copy(spec_, spec_.units[u], at_.query(u, 0), at_.update, at_.mesh);
}

int64_t LayerCollectives::table_bytes(int l) const {
  int64_t elements = 0;
  for (int u = layer(l).first; u < layer(l).first + layer(l).count; ++u) elements += table_copy_of(u).trained;
  return elements * size_of(at_.job.gradients);
}

std::vector<Instruction> LayerCollectives::over(Opcode op, int l, int micro, const int64_t parameters[2],
                                                int64_t size) const {
  std::vector<Instruction> list;
  const int64_t ranks[2]{at_.mesh.replicas(), at_.mesh.expert_replicas()};
  for (const int part : {0, 1})
    if (ranks[part] > 1 && parameters[part] > 0)
      list.push_back({.op = op,
                      .unit = layer(l).first,
                      .micro = micro,
                      .axis = part == 0 ? MeshAxis::replicas : MeshAxis::expert_replicas,
                      .message_bytes = parameters[part] * size});
  return list;
}

std::vector<Instruction> LayerCollectives::gathers(int l, int micro) {
  if (at_.layers[l].strategy.zero < 3) return {};
  const LayerParameters& n = parameters(l);
  const int64_t read[2]{n.all[0] + n.lent, n.all[1]};
  return over(Opcode::gather, l, micro, read, size_of(at_.job.dtype));
}

std::vector<Buffer> LayerCollectives::gathered(int l, int micro) {
  std::vector<Buffer> list;
  for (const Instruction& i : gathers(l, micro))
    list.push_back({list.empty() ? BufferKind::gathered : BufferKind::gathered_experts, i.unit, micro});
  return list;
}

}  // namespace tern
