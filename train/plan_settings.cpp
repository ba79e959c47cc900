#include "train/plan_settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/options.h"
#include "base/units.h"
#include "base/wide_type.h"
#include "plan/plan_file.h"
#include "program/placement.h"
#include "spec/recompute.h"
#include "train/rank_place.h"
#include "train/settings.h"
#include "train/settings_ranks.h"

namespace tern {

bool states_lie_on_disk(const Plan& p) {
  return !p.layers.empty() &&
         std::ranges::all_of(p.layers, [](const PlannedLayers& l) { return l.strategy.states == Tier::disk; });
}

std::string why_not_trained(const Plan& p) {
  const OuterChoice& c = p.choice;
  const auto shares = [&](const char* what, const char* fix) {
    return fmt::format("shares out {}, which tern train does not yet: plan with --fix {}", what, fix);
  };
  if (c.mesh.expert > 1 && c.mesh.tensor > 1)
    return shares("experts beside matrices (expert and tensor parallelism)", "tp=1 or ep=1");
  if (c.mesh.expert_tensor > 1) return shares("each expert's matrices (expert tensor parallelism)", "etp=1");
  if (splits_backward(c.schedule) && c.num_stages > 1 && c.mesh.replicas() > 1)
    for (const PlannedLayers& l : p.layers)
      if (l.strategy.zero >= 3)
        return fmt::format(
            "shares out weights (zero 3) under schedule {}, whose weight gradients come when they have gone; "
            "plan with --zero 0,1,2, or with --fix schedule=1f1b",
            name_of(c.schedule));
  for (const PlannedLayers& l : p.layers)
    if ((l.strategy.states != Tier::device && !(c.devices() == 1 && states_lie_on_disk(p))) ||
        l.strategy.activations != Tier::device)
      return "keeps states or activations off the device, which tern train does for the states of all layers, on the "
             "disk of "
             "one device: plan with --offload none";
  if (p.job.lengths.given() && p.job.lengths.batching == Batching::padded)
    return "pads its windows; tern train lays sequences end to end: plan with --batching packed";
  if (p.job.dtype != DType::f32 && p.job.dtype != DType::bf16 && p.job.dtype != DType::f64)
    return fmt::format("is in {}; tern train knows f32, bf16 and f64", name_of(p.job.dtype));
  const DType wide = wide_type(p.job.dtype);
  if (p.job.gradients != wide)
    return fmt::format("has gradients in {}; tern train's are {}: plan with --gradients {}", name_of(p.job.gradients),
                       name_of(wide), name_of(wide));
  if (p.job.batch != c.micro_batch * c.num_micro * c.mesh.data)
    return fmt::format("has {} micro-batches of {} on {} for a batch of {}: choose a batch that they divide",
                       c.num_micro, c.micro_batch, counted(c.mesh.data, "rank"), p.job.batch);
  return "";
}

std::optional<Plan> plan_option(const Options& o) {
  const std::string& path = o.text("plan");
  if (path.empty()) return std::nullopt;
  Plan plan = read_plan(path);
  if (const std::string reason = why_not_trained(plan); !reason.empty())
    throw Error(ErrorKind::usage, "--plan {}: the plan {}", path, reason);
  return plan;
}

PlannedStep planned_step(const Plan& p) {
  if (!p.program || p.program->step_ps <= 0 || p.program->step_ps == p.step_ps) return {.ps = p.step_ps};
  return {.ps = p.program->step_ps, .of_program = true};
}

std::vector<Recompute> planned_recompute(const Plan& p) {
  std::vector<Recompute> modes;
  for (const PlannedLayers& l : p.layers) modes.insert(modes.end(), static_cast<size_t>(l.count), l.strategy.recompute);
  return modes;
}

// Embedding and head have nothing to recompute.
std::optional<Recompute> planned_mode(const Plan& p) {
  const std::vector<Recompute> modes = planned_recompute(p);
  if (modes.size() <= 2) return Recompute::none;
  const bool alike = std::all_of(modes.begin() + 1, modes.end() - 1, [&](Recompute r) { return r == modes[1]; });
  return alike ? std::optional(modes[1]) : std::nullopt;
}

bool planned_overlap(const Plan& p) { return p.job.tensor_overlap && p.choice.mesh.tensor > 1; }

std::optional<int> planned_zero(const Plan& p) {
  const int first = p.layers.front().strategy.zero;
  const bool alike = std::ranges::all_of(p.layers, [&](const PlannedLayers& l) { return l.strategy.zero == first; });
  return alike ? std::optional(first) : std::nullopt;
}

std::vector<PlannedValue> planned_values(const Plan& p) {
  std::vector<PlannedValue> list{{"seq", fmt::format("{}", p.job.seq)},
                                 {"batch", fmt::format("{}", p.job.batch)},
                                 {"micro-batch", fmt::format("{}", p.choice.micro_batch)},
                                 {"optimizer", std::string(name_of(p.job.optimizer))},
                                 {"dtype", std::string(name_of(p.job.dtype))}};
  if (const auto zero = planned_zero(p)) list.push_back({"zero", fmt::format("{}", *zero)});
  list.push_back({"ranks", fmt::format("{}", p.choice.devices())});
  list.push_back({"tensor-parallel", fmt::format("{}", p.choice.mesh.tensor)});
  list.push_back({"context-parallel", fmt::format("{}", p.choice.mesh.context)});
  if (p.choice.mesh.context > 1) list.push_back({"context-by", p.choice.mesh.ulysses ? "ulysses" : "ring"});
  list.push_back({"expert-parallel", fmt::format("{}", p.choice.mesh.expert)});
  if (const auto mode = planned_mode(p)) list.push_back({"recompute", std::string(name_of(*mode))});
  return list;
}

void apply_plan(const Plan& p, const Options& o, TrainSettings& s) {
  const auto refuse = [&](std::string_view name, const std::string& planned) {
    throw Error(ErrorKind::usage, "--plan {}: the plan has {} for --{}, but {} says {}; leave one of the two out",
                o.text("plan"), planned, name, o.value(name).where,
                o.value(name).text.empty() ? fmt::format("{}", o.value(name).integer) : o.value(name).text);
  };
  const std::vector<PlannedValue> values = planned_values(p);
  for (const auto& [name, value] : values) {
    if (!o.given(name)) continue;
    const bool number = o.value(name).spec->type == OptionType::integer;
    if ((number ? fmt::format("{}", o.integer(name)) : o.text(name)) != value) refuse(name, value);
  }
  if (o.given("tp-comm-overlap") && o.flag("tp-comm-overlap") != planned_overlap(p))
    throw Error(ErrorKind::usage,
                "--plan {}: the plan is {} --tp-comm-overlap, but {} says {}; leave one of the two out", o.text("plan"),
                planned_overlap(p) ? "with" : "without", o.value("tp-comm-overlap").where,
                o.flag("tp-comm-overlap") ? "on" : "off");
  if (p.choice.mesh.expert > 1 && o.given("capacity-factor") && o.real("capacity-factor") != p.job.capacity_factor)
    refuse("capacity-factor", fmt::format("{}", p.job.capacity_factor));
  if (!planned_mode(p) && o.given("recompute")) refuse("recompute", "a mode for each layer");
  if (!planned_zero(p) && o.given("zero")) refuse("zero", "a stage for each layer");
  s.zero = planned_zero(p).value_or(0);
  s.seq = p.job.seq, s.batch = p.job.batch, s.micro_batch = p.choice.micro_batch;
  s.dtype = p.job.dtype;
  s.recompute = planned_mode(p).value_or(Recompute::none);
  if (states_lie_on_disk(p)) s.states_on_disk = true;
  s.plan = p, s.plan_path = o.text("plan");
}

void check_planned_model(const ModelSpec& spec, const TrainSettings& s) {
  if (!s.plan) return;
  try {
    const Placement placed = placement_of(spec, *s.plan);
    const PipelineShape& shape = placed.shape;
    shares_of(spec, s, rank_place(spec, s, 0));
    if (shape.num_devices > 1 && placed.mesh.replicas() > 1 && spec.head().tied &&
        device_of(shape, 0) == device_of(shape, shape.num_virtual_stages() - 1))
      throw Error(ErrorKind::usage,
                  "the plan has replicas of stages whose first device has the tied table's head too, which tern train "
                  "does not run yet: plan with --fix dp=1,cp=1, or with another schedule");
  } catch (const Error& e) { throw Error(e.kind(), "--plan {}: {}", s.plan_path, e.what()); }
}

}  // namespace tern
