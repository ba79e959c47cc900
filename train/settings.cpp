#include "train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "base/units.h"
#include "spec/recompute.h"
#include "spec/update_words.h"
#include "train/group_advice.h"
#include "train/inputs.h"
#include "train/option_origin.h"
#include "train/outer_settings.h"
#include "train/plan_settings.h"
#include "train/robust_settings.h"
#include "train/settings_impl.h"
#include "train/settings_ranks.h"
#include "train/zeroth_run.h"

namespace tern {
namespace {

bool has_option(UpdateRule rule, std::string_view name) {
  return std::ranges::count(row_of(rule).options, name, &RuleOption::name) > 0;
}

// In decimals, so that a tenth of 3 is 0.3 and not 0.30000000000000004.
double tenth(double x) { return std::stod(fmt::format("{:.15g}", x / 10)); }

// A recipe is tried with few --steps: its warm-up is then longer than the run.
bool outgrows_recipe_warmup(const Options& o) {
  return o.value("warmup-steps").origin == Origin::recipe && o.value("steps").origin > Origin::recipe &&
         o.integer("warmup-steps") > o.integer("steps");
}

// Neither the default warm-up nor a recipe's must make a short run impossible; one that was asked for with these steps is checked.
int64_t warmup_steps(const Options& o) {
  const int64_t steps = o.integer("warmup-steps");
  if (o.given("warmup-steps") && !outgrows_recipe_warmup(o)) return steps;
  return std::min(steps, o.integer("steps") / 10);
}

LearningRateSchedule schedule_from(const Options& o) {
  LearningRateSchedule s;
  s.kind = learning_rate_kind_from_name(o.text("schedule"));
  s.total_steps = o.integer("steps");
  s.peak = o.real("learning-rate");
  s.minimum = o.has("min-learning-rate") ? o.real("min-learning-rate") : tenth(s.peak);
  if (s.kind == LearningRateKind::constant && o.given("min-learning-rate"))
    throw Error(ErrorKind::usage, "{}: --schedule constant has no lower end; leave it out",
                as_given(o, "min-learning-rate"));
  s.warmup_steps = warmup_steps(o);
  s.decay_steps = o.has("decay-steps") ? o.integer("decay-steps") : s.total_steps / 10;
  if (s.kind != LearningRateKind::wsd) {
    if (o.given("decay-steps"))
      throw Error(ErrorKind::usage, "{}: only --schedule wsd has a decay of its own, this run is {}",
                  as_given(o, "decay-steps"), name_of(s.kind));
    s.decay_steps = 0;
  }
  check_schedule(s);
  return s;
}

UpdateConfig optimizer_from(const Options& o, UpdateRule rule) {
  UpdateConfig c = update_config(rule);
  if (asks_for_zeroth_order(o)) {
    c.clip = 0;
    if (rule == UpdateRule::sgd) c.set_option("momentum", 0);
  }
  if (o.given("clip")) c.clip = o.real("clip");
  if (o.given("clip") && row_of(rule).clip.empty())
    throw Error(ErrorKind::usage,
                "{}: the step of --optimizer {} does not depend on the length of the gradient; leave it out",
                as_given(o, "clip"), name_of(rule));
  for (const RuleOption& option : row_of(c.rule).options) {
    if (!o.given(option.name)) continue;
    const double value = o.real(option.name);
    if (option.counts && (value < 1 || value != std::floor(value)))
      throw Error(ErrorKind::usage, "--{}: {}; expected a whole number from 1 on", option.name, value);
    c.set_option(option.name, value);
  }
  for (const auto& [name, value] : o.values())
    if (o.given(name) && is_of_other_rules(c.rule, name))
      throw Error(ErrorKind::usage, "{}: --optimizer {} has none, it reads {} (`{} help updates`); leave it out",
                  as_given(o, name), name_of(c.rule), flags_of(c.rule), program_name());
  return c;
}

UpdateRule rule_from(const Options& o, const std::optional<Plan>& plan) {
  if (plan) return plan->job.optimizer;
  const bool plain = asks_for_async(o) || asks_for_zeroth_order(o);
  return plain && !o.given("optimizer") ? UpdateRule::sgd : update_rule_from_name(o.text("optimizer"));
}

int ranks_from(const Options& o, const std::optional<Plan>& plan) {
  if (asks_for_async(o)) return 1;
  if (!o.knows("ranks")) return 1;
  return static_cast<int>(plan ? plan->choice.devices() : o.integer("ranks"));
}
int tensor_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("tensor-parallel")) return 1;
  return static_cast<int>(plan ? plan->choice.mesh.tensor : o.integer("tensor-parallel"));
}

bool tensor_overlap_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("tp-comm-overlap")) return false;
  return plan ? planned_overlap(*plan) : o.flag("tp-comm-overlap");
}

int context_ranks_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("context-parallel")) return 1;
  return static_cast<int>(plan ? plan->choice.mesh.context : o.integer("context-parallel"));
}
bool context_ring_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("context-by")) return false;
  if (!plan) return o.text("context-by") == "ring";
  return plan->choice.mesh.context > 1 && !plan->choice.mesh.ulysses;
}
int expert_ranks_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("expert-parallel")) return 1;
  return static_cast<int>(plan ? plan->choice.mesh.expert : o.integer("expert-parallel"));
}
SumOrder sum_order_from(const Options& o, const std::optional<Plan>& plan = {}) {
  if (o.knows("sum-groups") && o.has("sum-groups")) return {o.integer("sum-groups")};
  const int shared = tensor_from(o, plan) * context_ranks_from(o, plan);
  return {plan ? plan->choice.mesh.data : std::max(1, ranks_from(o, plan) / shared)};
}

// Of pairs each answer has a weight of its own.
int64_t derived_micro_batch(const Options& o) {
  return learns_pairs(o) ? 1 : micro_batch_of_groups(o.integer("batch"), sum_order_from(o).groups);
}

// For advice alone; a model that cannot be read is refused in its turn.
std::optional<ModelSpec> known_model(const TrainSettings& s) {
  try {
    return load_inputs(s).spec;
  } catch (const Error&) { return {}; }
}

int zero_stage(const std::string& text) {
  for (int stage = 0; stage <= 3; ++stage)
    if (text == std::to_string(stage)) return stage;
  throw Error(ErrorKind::usage, "--zero {}: expected 0, 1, 2 or 3", text);
}

}  // namespace

bool is_of_other_rules(UpdateRule rule, std::string_view name) {
  return !has_option(rule, name) &&
         std::ranges::any_of(kUpdateRules, [&](UpdateRule other) { return has_option(other, name); });
}

std::vector<DerivedValue> derived_values(const Options& o) {
  std::vector<DerivedValue> list;
  const auto number = [](auto x) { return fmt::format("{}", x); };
  const std::optional<Plan> plan = o.knows("plan") ? plan_option(o) : std::nullopt;
  if (plan)
    for (const auto& [name, value] : planned_values(*plan))
      if (!o.given(name))
        list.push_back({name, o.value(name).spec->type == OptionType::integer ? value : quote_json(value),
                        fmt::format("the plan {}", o.text("plan"))});
  if (plan && planned_overlap(*plan) && !o.given("tp-comm-overlap"))
    list.push_back({"tp-comm-overlap", "true", fmt::format("the plan {}", o.text("plan"))});
  for (DerivedValue& value : outer_defaults(o)) list.push_back(std::move(value));
  const UpdateRule rule = rule_from(o, plan);
  if (asks_for_async(o) && !o.given("optimizer")) list.push_back({"optimizer", "\"sgd\"", "--async"});
  const bool zeroth = asks_for_zeroth_order(o);
  constexpr const char* kZeroth = "--gradients zeroth-order";
  if (zeroth && !o.given("optimizer")) list.push_back({"optimizer", "\"sgd\"", kZeroth});
  const std::string why = fmt::format("the default of --optimizer {}", name_of(rule));
  for (const RuleOption& option : row_of(rule).options)
    if (option.name == "momentum" && !o.given("momentum") && async_without_momentum(o))
      list.push_back({option.name, "0.0", "--async-rule asgd"});
    else if (option.name == "momentum" && !o.given("momentum") && zeroth && rule == UpdateRule::sgd)
      list.push_back({option.name, "0.0", kZeroth});
    else if (!o.given(option.name))
      list.push_back({option.name, recipe_real(option.fallback), why});
  if (const std::string_view clip = row_of(rule).clip; !clip.empty() && !o.given("clip"))
    list.push_back({"clip", zeroth ? "0.0" : recipe_real(clip), zeroth ? kZeroth : why});
  if (!plan && !o.given("micro-batch")) {
    const int64_t micro = derived_micro_batch(o);
    list.push_back({"micro-batch", number(micro),
                    learns_pairs(o)               ? "an answer of --method dpo"
                    : micro == o.integer("batch") ? "the whole batch"
                                                  : "a group of the batch"});
  }
  if (o.knows("sum-groups") && !o.given("sum-groups"))
    list.push_back({"sum-groups", number(sum_order_from(o, plan).groups), "--ranks"});
  if (!o.given("min-learning-rate") && o.text("schedule") != "constant")
    list.push_back({"min-learning-rate", number(tenth(o.real("learning-rate"))), "a tenth of --learning-rate"});
  if (const int64_t steps = warmup_steps(o); steps != o.integer("warmup-steps"))
    list.push_back({"warmup-steps", number(steps),
                    outgrows_recipe_warmup(o)
                        ? fmt::format("a tenth of --steps, as the {} of the recipe are more than the run has",
                                      o.integer("warmup-steps"))
                        : "a tenth of --steps, as the run is short"});
  if (!o.given("decay-steps") && o.text("schedule") == "wsd")
    list.push_back({"decay-steps", number(o.integer("steps") / 10), "a tenth of --steps"});
  return list;
}

std::vector<std::string> overruled_options(const Options& o) {
  std::vector<std::string> sentences;
  for (const DerivedValue& d : derived_values(o))
    if (o.given(d.name)) sentences.push_back(fmt::format("--{} {}: {}", d.name, d.value, d.why));
  return sentences;
}

std::string_view name_of(Multiply m) { return m == Multiply::fast ? "fast" : "exact"; }

Recompute recompute_from_name(std::string_view name) {
  std::vector<std::pair<std::string_view, Recompute>> modes;
  for (const Recompute r : kRecomputes) modes.emplace_back(name_of(r), r);
  return value_named<Recompute>("recompute", name, modes);
}
Multiply multiply_from_name(std::string_view name) {
  return value_named<Multiply>("multiply", name, {{"fast", Multiply::fast}, {"exact", Multiply::exact}});
}
Resume resume_from_name(std::string_view name) {
  return value_named<Resume>("resume", name,
                             {{"auto", Resume::automatic}, {"must", Resume::must}, {"never", Resume::never}});
}

// Groups of ranks that share something out are equally large.
static void check_groups(const TrainSettings& s) {
  const auto advice = [&](int GroupSizes::*axis) {
    const std::optional<ModelSpec> model = known_model(s);
    return group_advice(s, model ? &*model : nullptr, axis);
  };
  if (s.ranks % s.tensor != 0)
    throw Error(ErrorKind::usage, "--tensor-parallel: {} does not divide --ranks {}; {}", s.tensor, s.ranks,
                advice(&GroupSizes::tensor));
  if (s.ranks % (s.tensor * s.context_ranks) != 0)
    throw Error(ErrorKind::usage, "--context-parallel: groups of {} do not divide --ranks {}; {}",
                s.tensor * s.context_ranks, s.ranks, advice(&GroupSizes::context));
  if (const int sharers = num_sharers(s); sharers % s.expert_ranks != 0)
    throw Error(ErrorKind::usage, "--expert-parallel: groups of {} do not divide the {} that have the same layers; {}",
                s.expert_ranks, counted(sharers, "rank"), advice(&GroupSizes::expert));
}

TrainSettings train_settings(const Options& o) {
  TrainSettings s;
  s.model = o.positional("MODEL");
  s.tokenizer = o.text("tokenizer"), s.chat_template = o.text("chat-template"), s.data = o.text("data"),
  s.valid_data = o.text("valid-data"), s.output = o.text("output");
  s.invalid_utf8 = invalid_utf8_from_name(o.text("invalid-utf8"));
  s.answers = answers_from_name(o.text("answers"));
  s.adapter = adapter_from(o);
  s.from_scratch = o.knows("from-scratch") && o.flag("from-scratch");
  s.seq = o.integer("seq"), s.batch = o.integer("batch");
  s.micro_batch = o.has("micro-batch") ? o.integer("micro-batch") : derived_micro_batch(o);
  s.fixed_micro_batch = o.has("micro-batch"), s.fixed_groups = o.knows("sum-groups") && o.has("sum-groups");
  if (o.knows("zero")) s.zero = zero_stage(o.text("zero"));
  if (o.knows("context") && o.has("context")) s.context = o.integer("context");
  s.schedule = schedule_from(o);
  const std::optional<Plan> plan = o.knows("plan") ? plan_option(o) : std::nullopt;
  s.ranks = ranks_from(o, plan), s.tensor = tensor_from(o, plan);
  s.tensor_overlap = tensor_overlap_from(o, plan);
  s.context_ranks = context_ranks_from(o, plan), s.context_ring = context_ring_from(o, plan);
  s.expert_ranks = expert_ranks_from(o, plan);
  if (o.knows("capacity-factor")) s.capacity_factor = plan ? plan->job.capacity_factor : o.real("capacity-factor");
  s.sum_order = sum_order_from(o, plan);
  s.optimizer = optimizer_from(o, rule_from(o, plan));
  if (async_without_momentum(o) && s.optimizer.rule == UpdateRule::sgd && !o.given("momentum"))
    s.optimizer.set_option("momentum", 0);
  s.dtype = dtype_from_name(o.text("dtype"));
  s.recompute = recompute_from_name(o.text("recompute"));
  s.update_in_backward = o.knows("update-in-backward") && o.flag("update-in-backward");
  s.perturbation = perturbation_from(o);
  s.states_on_disk = o.knows("states") && o.text("states") == "disk";
  if (o.knows("states-dir")) s.states_directory = o.text("states-dir");
  s.multiply = multiply_from_name(o.text("multiply"));
  s.shuffle = o.flag("shuffle");
  s.seed = static_cast<uint64_t>(o.integer("seed"));
  s.checkpoint_every = o.integer("checkpoint-every"),
  s.keep_checkpoints = static_cast<int>(o.integer("keep-checkpoints"));
  s.keep_best = o.flag("keep-best");
  if (o.has("patience")) s.patience = o.integer("patience");
  s.eval_every = o.integer("eval-every"), s.eval_batches = o.integer("eval-batches"),
  s.log_every = o.integer("log-every");
  s.resume = resume_from_name(o.text("resume"));
  if (o.has("memory")) s.memory_bytes = o.integer("memory");
  if (o.has("max-seconds")) s.max_seconds = o.real("max-seconds");
  s.dry_run = o.flag("dry-run");
  s.trace = o.text("trace");
  if (plan) apply_plan(*plan, o, s);
  s.async = async_from(o, s);
  if (s.async && (s.tensor > 1 || s.context_ranks > 1 || s.expert_ranks > 1))
    throw Error(ErrorKind::usage, "--{}: workers of --async work by themselves; leave one of the two out",
                s.tensor > 1          ? "tensor-parallel"
                : s.context_ranks > 1 ? "context-parallel"
                                      : "expert-parallel");
  if (s.async) s.ranks = 1, s.sum_order = {1};
  check_groups(s);
  s.robust = robust_from(o, s);
  s.outer = outer_from(o, s);
  s.recipe_toml = recipe_text(o, s);
  check_settings(o, s);
  return s;
}

}  // namespace tern
