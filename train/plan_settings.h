#pragma once
// --plan: which settings of a training run a plan of `tern plan` decides.

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

/// Why `tern train` cannot run this plan, in words that continue "the plan": "is in f16; tern train knows …". "": it can. What it cannot
/// run: context parallelism in a ring, expert parallelism beside tensor parallelism or inside experts; ZeRO 3 over replicas of stages with a split backward; activations or states off
/// the device, except all states on one device's disk; padded windows; gradients in another type than its own; f16; micro-batches that do
/// not fill the batch.
std::string why_not_trained(const Plan&);

/// The plan that --plan names; none without --plan. Errors: those of read_plan; usage, in the words of why_not_trained.
std::optional<Plan> plan_option(const Options&);

/// An option that the plan decides, and its value as one would type it.
struct PlannedValue {
  std::string_view name;
  std::string value;
};
/// The values of seq, batch, micro-batch, optimizer, dtype, ranks, tensor-parallel, context-parallel and expert-parallel; of zero and recompute, if
/// planned_zero and planned_mode have one value for all layers.
std::vector<PlannedValue> planned_values(const Plan&);

/// Puts the plan itself, sizes, dtype, ZeRO, recomputation and states on the disk into the settings; ranks, tensor and context parallelism and the
/// optimizer are already there, as train_settings has them from the plan. Errors: usage: an option for one of planned_values says something else.
void apply_plan(const Plan&, const Options&, TrainSettings&);

/// Refuses a plan in the settings that is not one of this model, or has replicas of a device with both embedding and tied head. Errors: usage.
void check_planned_model(const ModelSpec&, const TrainSettings&);

/// The recomputation mode that all layers between embedding and head have; none: they differ.
std::optional<Recompute> planned_mode(const Plan&);
/// The ZeRO stage that all layers have; none: they differ.
std::optional<int> planned_zero(const Plan&);
/// The recomputation mode of each layer (plan/layers.h).
std::vector<Recompute> planned_recompute(const Plan&);

}  // namespace tern
