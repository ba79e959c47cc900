#include "train/tensor_fit.h"

#include <algorithm>

#include "exec/stage_messages.h"
#include "spec/collective_bytes.h"
#include "spec/unit_cost.h"
#include "train/settings.h"
#include "update/state.h"

namespace tern {
namespace {

int64_t equal_part(int64_t elements, int64_t ranks) { return (elements + ranks - 1) / ranks; }

// Of the units of a layer, or the most of any layer: elements that a rank trains, and of them those that others hold too.
struct LayerElements {
  int64_t trained = 0, all = 0, keys = 0;
};

}  // namespace

void predict_tensor_parts(const ModelSpec& spec, const TrainSettings& s, int64_t widest, MemoryPlan& plan) {
  const int64_t wide = s.dtype == DType::f64 ? 8 : 4, data = num_replicas(s), rows = s.micro_batch * s.seq / s.tensor;
  plan.weights = plan.gradients = plan.optimizer = 0;
  LayerElements most;
  for (const Layer& layer : layers_of(spec)) {
    LayerElements own;
    for (int u = layer.first; u < layer.first + layer.count; ++u) {
      const Unit& unit = spec.units[static_cast<size_t>(u)];
      const CostQuery query{.dtype = s.dtype, .tensor = s.tensor};
      const UnitCost cost = unit_cost(unit, query);
      const AlikeParameters alike = alike_parameters(unit, s.tensor);
      plan.weights += cost.parameter_bytes, plan.gradients += cost.gradient_bytes;
      plan.optimizer += state_bytes(s.optimizer, s.dtype, trained_forms(unit, query));
      own.trained += cost.trained, own.all += alike.all, own.keys += alike.keys;
    }
    most = {std::max(most.trained, own.trained), std::max(most.all, own.all), std::max(most.keys, own.keys)};
  }
  plan.weights *= s.ranks, plan.gradients *= s.ranks, plan.optimizer *= s.ranks;
  plan.beginning = plan.weights + plan.optimizer + s.ranks * widest * wide;

  const int64_t heads = first_attention(spec).kv_heads;
  const auto same_keys = static_cast<int>(heads < s.tensor ? s.tensor / heads : 1);
  const auto staged = [&](int64_t elements, int ranks) {
    return staging_elements(equal_part(elements, ranks), ranks) * wide;
  };
  plan.messages = std::max(staging_elements(rows * spec.width, s.tensor) * static_cast<int64_t>(size_of(s.dtype)),
                           staged(most.all, s.tensor));
  if (data > 1) plan.messages += staged(most.trained, static_cast<int>(data));
  if (same_keys > 1) plan.messages += staged(most.keys, same_keys);
  plan.messages *= s.ranks;
}

}  // namespace tern
