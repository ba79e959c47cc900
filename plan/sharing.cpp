#include "plan/sharing.h"

#include "base/dtype.h"
#include "plan/ceil_div.h"

namespace tern {

TableCopy table_copy(const ModelSpec& spec, const Unit& unit, const CostQuery& query, const UpdateConfig& update) {
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  const auto* bridge = std::get_if<BridgeSpec>(&unit.spec);
  if (!(head && head->tied) && !bridge) return {};
  const int64_t rows = ceil_div(head ? head->vocab : bridge->vocab, query.tensor);
  TableCopy copy{.parameters = rows * spec.width};
  if (unit.frozen) return copy;
  copy.trained = copy.parameters;
  copy.state_bytes = state_bytes(update, query.dtype, ParameterForm{ParameterKind::table, rows, spec.width});
  return copy;
}

LayerParameters layer_parameters(const ModelSpec& spec, const Layer& layer, const CostQuery& query,
                                 const UpdateConfig& update, bool pipelined) {
  LayerParameters n;
  for (int u = layer.first; u < layer.first + layer.count; ++u) {
    const Unit& unit = spec.units[static_cast<size_t>(u)];
    const UnitCost c = unit_cost(unit, query);
    n.all[0] += c.parameters - c.expert_parameters, n.all[1] += c.expert_parameters;
    n.trained[0] += c.trained - c.expert_trained, n.trained[1] += c.expert_trained;
    for (const CountedForm& form : trained_forms(unit, query, c))
      n.state_bytes[form.expert] += form.count * state_bytes(update, query.dtype, form.form);
    if (!pipelined) n.own_gradients += own_table_gradient(unit, query);
    const TableCopy copy = pipelined ? table_copy(spec, unit, query, update) : TableCopy{};
    if (copy.parameters == 0) continue;
    n.all[0] += copy.parameters, n.trained[0] += copy.trained, n.state_bytes[0] += copy.state_bytes;
    ++n.tables;
  }
  return n;
}

namespace {

// The state of `part` of a layer's trained elements, rounded up.
int64_t state_share(int64_t state_bytes, int64_t part, int64_t trained) {
  if (part == trained) return state_bytes;
  return static_cast<int64_t>((static_cast<__int128>(state_bytes) * part + trained - 1) / trained);
}

}  // namespace

SharedBytes shared_bytes(const TrainJob& job, const Mesh& mesh, const LayerParameters& n, int zero) {
  const int64_t ranks[2]{mesh.replicas(), mesh.expert_replicas()};
  SharedBytes r;
  for (int i = 0; i < 2; ++i) {
    const int64_t trained = n.trained[i], gradients = trained + (i == 0 ? n.own_gradients : 0);
    r.weights += (zero >= 3 ? ceil_div(n.all[i], ranks[i]) : n.all[i]) * size_of(job.dtype);
    r.gradients += (zero >= 2 ? ceil_div(gradients, ranks[i]) : gradients) * size_of(job.gradients);
    const int64_t shard = zero >= 1 ? ceil_div(trained, ranks[i]) : trained;
    r.shard += shard;
    r.states += state_share(n.state_bytes[i], shard, trained);
  }
  return r;
}

}  // namespace tern
