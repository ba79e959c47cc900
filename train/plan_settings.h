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

/// Why `tern train` cannot run this plan, in words that follow "the plan": "is in f16; tern train knows …". Empty: it can. It runs no plan with: expert
/// parallelism together with tensor parallelism; experts whose matrices are split; replicas of stages under ZeRO 3 if the schedule splits the backward; activations off the
/// device; states off the device (but a plan for one device may have all of them on the disk); padded windows; gradients of another type than tern train's
/// (wide_type); a dtype other than f32, bf16 and f64; a batch that is not micro_batch · num_micro · data.
std::string why_not_trained(const Plan&);

/// Whether the plan keeps the optimizer's states of every layer on the disk.
bool states_lie_on_disk(const Plan&);

/// The plan that --plan names; none without --plan. Errors: those of read_plan; usage, in the words of why_not_trained.
std::optional<Plan> plan_option(const Options&);

/// What a run's step is compared with: the time of the plan's Program, if it has one; else the stage model's. Where ranks share cores (devices_at_once in the
/// cluster file), only the Program's counts that a rank that waits leaves its core to others.
struct PlannedStep {
  int64_t ps = 0;
  bool of_program = false;  // whether it differs from the stage model's
};
PlannedStep planned_step(const Plan&);

/// An option whose value the plan decides, and this value as one would type it.
struct PlannedValue {
  std::string_view name;
  std::string value;
};
/// The values of seq, batch, micro-batch, optimizer, dtype, ranks, tensor-parallel, context-parallel, expert-parallel; with a context
/// group also context-by; zero if planned_zero has a value, recompute if planned_mode has one.
std::vector<PlannedValue> planned_values(const Plan&);

/// Sets seq, batch, micro_batch, dtype, zero, recompute, states_on_disk, plan and plan_path; train_settings has set the other planned_values before.
/// Errors: usage: an option contradicts one of planned_values, planned_overlap or, with expert parallelism, the plan's capacity factor; or an option gives one
/// recomputation mode or ZeRO stage for all layers, while the plan's layers differ.
void apply_plan(const Plan&, const Options&, TrainSettings&);

/// Checks that the plan can be run with this model. Errors: usage: the plan is for another model; it is a pipeline with replicas whose first device
/// has both embedding and tied head; those of make_shares and make_mesh_shares (update/shares.h).
void check_planned_model(const ModelSpec&, const TrainSettings&);

/// Whether the plan has tensor groups whose exchanges pass beside products.
bool planned_overlap(const Plan&);
/// The recomputation mode that all layers between embedding and head have; nullopt: the layers differ.
std::optional<Recompute> planned_mode(const Plan&);
/// The ZeRO stage that all layers have; nullopt: the layers differ.
std::optional<int> planned_zero(const Plan&);
/// The recomputation mode of each layer (plan/layers.h).
std::vector<Recompute> planned_recompute(const Plan&);

}  // namespace tern
