#pragma once
// --plan: what a plan of `tern plan` decides of a training run.

#include <optional>
#include <string>
#include <vector>

#include "plan/plan_file.h"
#include "spec/model_spec.h"
#include "spec/unit_cost.h"

namespace tern {

class Options;
struct TrainSettings;

/// "", or why this engine does not train by the plan, as what follows "the plan": "needs 8 devices; …".
std::string why_not_trained(const Plan&);

/// The plan that the options name, if any. Errors: those of read_plan; usage, with
/// why_not_trained's words: ZeRO 3, matrices, sequences or experts shared out, ZeRO beside stages, something off the device, padded windows, gradients of another type,
/// f16, micro-batches that do not make up the batch.
std::optional<Plan> plan_option(const Options&);

/// An option that the plan decides, as one would type it.
struct PlannedValue {
  std::string_view name;
  std::string value;
};
/// batch, seq, micro-batch, dtype, optimizer; recompute, where all layers that can recompute do so alike.
std::vector<PlannedValue> planned_values(const Plan&);

/// Puts the plan's decisions into the settings. Errors: usage, for an option that was given and says something else.
void apply_plan(const Plan&, const Options&, TrainSettings&);

/// Errors: usage, if the plan is of another model.
void check_planned_model(const ModelSpec&, const TrainSettings&);

/// What all layers that can recompute have in common; none: they differ.
std::optional<Recompute> planned_mode(const Plan&);
/// What all layers have in common of ZeRO; none: they differ.
std::optional<int> planned_zero(const Plan&);
/// The plan's mode of each layer (plan/layers.h).
std::vector<Recompute> planned_recompute(const Plan&);

}  // namespace tern
