#include "model/coded_base.h"

#include <algorithm>

#include "base/error.h"
#include "base/wide_type.h"
#include "model/allocate_weights.h"
#include "model/model_files.h"
#include "model/ops.h"
#include "model/visit_weights.h"
#include "model/weights_file.h"

namespace tern {

ModelSpec with_stored_matrices(ModelSpec spec, const std::string& model_dir, DType dtype) {
  if (dtype == DType::f64 || !holds_coded(spec, model_dir)) return spec;
  const CodedBytes coded = coded_bytes(spec, model_dir, DType::f32);  // where kernels read no blocks, rows are decoded
  std::vector<StoredMatrices> units(spec.units.size());
  std::vector<bool> dense(spec.units.size());
  for_each_codable(spec, [&](const ParameterInfo& info) {
    const auto unit = static_cast<size_t>(info.unit);
    const auto at = coded.find(info.name);
    if (at == coded.end()) {
      dense[unit] = true;
      return;
    }
    units[unit].elements += info.shape.count(), units[unit].bytes += at->second;
  });
  for (size_t u = 0; u < units.size(); ++u) {
    Unit& unit = spec.units[u];
    const StoredMatrices& stored = units[u];
    if (unit.frozen && !moe_of(unit) && !dense[u] && stored.bytes < stored.elements * size_of(dtype))
      unit.stored = {true, stored.elements, stored.bytes};
  }
  if (spec.head().tied) spec.units.back().stored = {.coded = spec.units.front().stored.coded};
  return spec;
}

bool has_stored_matrices(const ModelSpec& spec) {
  return std::ranges::any_of(spec.units, [](const Unit& u) { return u.stored.coded; });
}

void for_each_stored(const ModelSpec& spec, const std::function<void(const ParameterInfo&)>& visit) {
  for_each_codable(spec, [&](const ParameterInfo& info) {
    if (spec.units[static_cast<size_t>(info.unit)].stored.coded) visit(info);
  });
}

ModelWeights weights_beside(const ModelSpec& spec, StoredWeights stored, DType dtype,
                            const std::function<void(const ParameterInfo&, Tensor&)>& read, Arena& arena) {
  ModelWeights weights = empty_weights(spec);
  for_each_parameter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    const bool is_table = &t == &embed_of(weights).tokens;
    if (const auto form = stored.find(info.name); form == stored.end()) {
      t = arena.allocate(dtype, info.shape, MemoryClass::weights);
      read(info, t);
    } else if (is_table) {
      t = arena.allocate(dtype, {0, info.shape[1]}, MemoryClass::weights);  // tells the type to compute in
      embed_of(weights).coded_tokens = form->second;
    }
  });
  for_each_adapter(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(dtype, info.shape, MemoryClass::weights);
  });
  for_each_fixed(spec, weights, [&](const ParameterInfo& info, Tensor& t) {
    t = arena.allocate(wide_type(dtype), info.shape, MemoryClass::weights);
    read(info, t);
  });
  share_storage(spec, weights);
  for_each_linear(spec, weights, [&](const ParameterInfo& info, Linear& linear) {
    if (const auto form = stored.find(info.name); form != stored.end()) linear.weight = form->second;
  });
  return weights;
}

}  // namespace tern
