#pragma once
// --plan: what a plan of `tern plan` decides of a training run.

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "spec/model_spec.h"
#include "spec/recompute.h"
#include "spec/unit_cost.h"

namespace tern {

class Options;
struct TrainSettings;

/// "", or why this engine does not train by the plan, in words that continue "the plan": "is in f16; tern train knows …".
std::string why_not_trained(const Plan&);

/// The options' plan, if any. Errors: read_plan's; usage, in why_not_trained's words: context (ring) or expert
/// parallelism; ZeRO 3 over replicas of stages with a split backward; activations or states off the device, except all
/// states on one device's disk; padded windows; other gradient types; f16; micro-batches that do not fill the batch.
std::optional<Plan> plan_option(const Options&);

/// An option that the plan decides, as one would type it.
struct PlannedValue {
  std::string_view name;
  std::string value;
};
/// seq, batch, micro-batch, optimizer, dtype, ranks, tensor-, context-parallel; planned_zero and planned_mode, if any.
std::vector<PlannedValue> planned_values(const Plan&);

/// Puts plan, sizes, dtype, ZeRO and recomputation into the settings; train_settings takes ranks, tensor and context
/// parallelism and the optimizer from the plan. Errors: usage, for an option that was given and says something else.
void apply_plan(const Plan&, const Options&, TrainSettings&);

/// Errors: usage: the plan does not fit the model.
void check_planned_model(const ModelSpec&, const TrainSettings&);

/// The recomputation mode of all layers that can recompute; nullopt: they differ.
std::optional<Recompute> planned_mode(const Plan&);
/// The ZeRO stage that all layers have; nullopt: they differ.
std::optional<int> planned_zero(const Plan&);
/// The plan's mode of each layer (plan/layers.h).
std::vector<Recompute> planned_recompute(const Plan&);

}  // namespace tern
