#include "plan/sharing.h"

#include "base/dtype.h"
#include "base/rounding.h"

namespace tern {

TableCopy table_copy(const ModelSpec& spec, const Unit& unit, const CostQuery& query, const UpdateConfig& update,
                     const Mesh& mesh) {
  const auto* head = std::get_if<HeadSpec>(&unit.spec);
  const auto* bridge = std::get_if<BridgeSpec>(&unit.spec);
  if (!(head && head->tied) && !bridge) return {};
  const int64_t rows = ceil_div(head ? head->vocab : bridge->vocab, query.tensor);
  TableCopy copy{.parameters = rows * spec.width};
  if (unit.frozen) return copy;
  const CountedForm form{{ParameterKind::table, rows, spec.width}};
  copy.trained = copy.parameters;
  copy.state_bytes = state_bytes(update, query.dtype, form.form);
  copy.widest = widest_share({&form, 1}, false, update, query.dtype, mesh.replicas());
  return copy;
}

LayerParameters layer_parameters(const ModelSpec& spec, const Layer& layer, const CostQuery& query,
                                 const UpdateConfig& update, const Mesh& mesh, bool pipelined) {
  LayerParameters n;
  for (int u = layer.first; u < layer.first + layer.count; ++u) {
    const Unit& unit = spec.units[static_cast<size_t>(u)];
    const UnitCost c = unit_cost(unit, query);
    n.all[0] += c.parameters - c.expert_parameters, n.all[1] += c.expert_parameters;
    n.trained[0] += c.trained - c.expert_trained, n.trained[1] += c.expert_trained;
    const std::vector<CountedForm> forms = trained_forms(unit, query, c);
    for (const CountedForm& form : forms)
      n.state_bytes[form.expert] += form.count * state_bytes(update, query.dtype, form.form);
    n.widest[0] += widest_share(forms, false, update, query.dtype, mesh.replicas());
    n.widest[1] += widest_share(forms, true, update, query.dtype, mesh.expert_replicas());
    if (!pipelined) n.own_gradients += own_table_gradient(unit, query);
    const TableCopy copy = table_copy(spec, unit, query, update, mesh);
    if (!pipelined) n.lent += copy.parameters;
    if (!pipelined || copy.parameters == 0) continue;
    n.all[0] += copy.parameters, n.trained[0] += copy.trained, n.state_bytes[0] += copy.state_bytes;
    n.widest[0] += copy.widest;
    ++n.tables;
  }
  return n;
}

SharedBytes shared_bytes(const TrainJob& job, const Mesh& mesh, const LayerParameters& n, int zero) {
  const int64_t ranks[2]{mesh.replicas(), mesh.expert_replicas()};
  SharedBytes r;
  for (int i = 0; i < 2; ++i) {
    const int64_t share = n.widest[i].elements, fixed = n.all[i] - n.trained[i], own = i == 0 ? n.own_gradients : 0;
    r.weights += (zero >= 3 ? share + ceil_div(fixed, ranks[i]) : n.all[i]) * size_of(job.dtype);
    r.gradients += ((zero >= 2 ? share : n.trained[i]) + own) * size_of(job.gradients);
    r.shard += zero >= 1 ? share : n.trained[i];
    r.states += zero >= 1 ? n.widest[i].state_bytes : n.state_bytes[i];
  }
  return r;
}

}  // namespace tern
