#include "train/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/options.h"
#include "base/units.h"
#include "model/adapter_files.h"
#include "model/taken_factors.h"
#include "plan/layers.h"
#include "train/nearest_order.h"
#include "train/outer_settings.h"
#include "train/plan_settings.h"
#include "train/robust_settings.h"

namespace tern {
namespace {

// The value of that name. An option may get a choice that its reader does not know: that is refused, not taken for
// another.
template <class T, class Values>
T named(std::string_view option, std::string_view name, const Values& values) {
  std::string known;
  for (const auto& [text, value] : values) {
    if (text == name) return value;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", text);
  }
  throw Error(ErrorKind::usage, "--{}: '{}' is none of {}", option, name, known);
}
template <class T>
T named(std::string_view option, std::string_view name, std::initializer_list<std::pair<std::string_view, T>> values) {
  return named<T, decltype(values)>(option, name, values);
}

// In decimals, so that a tenth of 3 is 0.3 and not 0.30000000000000004.
double tenth(double x) { return std::stod(fmt::format("{:.15g}", x / 10)); }

// The default warm-up must not make a short run impossible; one that was asked for is checked.
int64_t warmup_steps(const Options& o) {
  const int64_t steps = o.integer("warmup-steps");
  return o.given("warmup-steps") ? steps : std::min(steps, o.integer("steps") / 10);
}

LearningRateSchedule schedule_from(const Options& o) {
  LearningRateSchedule s;
  s.kind = learning_rate_kind_from_name(o.text("schedule"));
  s.total_steps = o.integer("steps");
  s.peak = o.real("learning-rate");
  s.minimum = o.has("min-learning-rate") ? o.real("min-learning-rate") : tenth(s.peak);
  if (s.kind == LearningRateKind::constant && o.given("min-learning-rate"))
    throw Error(ErrorKind::usage, "--min-learning-rate: --schedule constant has no lower end; leave it out");
  s.warmup_steps = warmup_steps(o);
  s.decay_steps = o.has("decay-steps") ? o.integer("decay-steps") : s.total_steps / 10;
  if (s.kind != LearningRateKind::wsd) {
    if (o.given("decay-steps"))
      throw Error(ErrorKind::usage, "--decay-steps: only --schedule wsd has a decay of its own, this run is {}",
                  name_of(s.kind));
    s.decay_steps = 0;
  }
  check_schedule(s);
  return s;
}

bool has_option(UpdateRule rule, std::string_view name) {
  return std::ranges::count(row_of(rule).options, name, &RuleOption::name) > 0;
}

// Whether it is an option of update rules, and of none that this run has.
bool is_of_other_rules(UpdateRule rule, std::string_view name) {
  return !has_option(rule, name) &&
         std::ranges::any_of(kUpdateRules, [&](UpdateRule other) { return has_option(other, name); });
}

UpdateConfig optimizer_from(const Options& o, UpdateRule rule) {
  UpdateConfig c = update_config(rule);
  if (o.given("clip")) c.clip = o.real("clip");
  if (o.given("clip") && row_of(rule).clip.empty())
    throw Error(ErrorKind::usage,
                "--clip: the step of --optimizer {} does not depend on the length of the gradient; leave it out",
                name_of(rule));
  for (const RuleOption& option : row_of(c.rule).options) {
    if (!o.given(option.name)) continue;
    const double value = o.real(option.name);
    if (option.below_max && !(value < option.max))
      throw Error(ErrorKind::usage, "--{}: {}; expected 0 up to, but not, {}", option.name, value, option.max);
    if (option.counts && (value < 1 || value != std::floor(value)))
      throw Error(ErrorKind::usage, "--{}: {}; expected a whole number from 1 on", option.name, value);
    c.set_option(option.name, value);
  }
  for (const auto& [name, value] : o.values())
    if (o.given(name) && is_of_other_rules(c.rule, name))
      throw Error(ErrorKind::usage, "--{}: --optimizer {} has none; leave it out", name, name_of(c.rule));
  return c;
}

UpdateRule rule_from(const Options& o, const std::optional<Plan>& plan) {
  if (plan) return plan->job.optimizer;
  return asks_for_async(o) && !o.given("optimizer") ? UpdateRule::sgd : update_rule_from_name(o.text("optimizer"));
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

int context_ranks_from(const Options& o, const std::optional<Plan>& plan) {
  if (!o.knows("context-parallel")) return 1;
  return static_cast<int>(plan ? plan->choice.mesh.context : o.integer("context-parallel"));
}
SumOrder sum_order_from(const Options& o, const std::optional<Plan>& plan = {}) {
  if (o.knows("sum-groups") && o.has("sum-groups")) return {o.integer("sum-groups")};
  const int shared = tensor_from(o, plan) * context_ranks_from(o, plan);
  return {plan ? plan->choice.mesh.data : std::max(1, ranks_from(o, plan) / shared)};
}

bool learns_pairs(const Options& o) { return o.knows("dpo-beta") && o.text("method") == "dpo"; }

// As large as the groups of a step allow; of pairs each answer has a weight of its own.
int64_t derived_micro_batch(const Options& o) {
  if (learns_pairs(o)) return 1;
  const int64_t batch = o.integer("batch"), groups = sum_order_from(o).groups;
  return batch % groups == 0 ? batch / groups : batch;
}

// Paths are written whole: the recipe lies in OUT, and its relative paths would be relative to that.
std::string whole_path(const std::string& path) {
  return path == "-" || path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

// A number of a recipe that reads back as a real one.
std::string real_text(std::string_view text) {
  return std::string(text) + (text.find_first_of(".en") == std::string_view::npos ? ".0" : "");
}

std::string value_text(const Options::Value& v) {
  switch (v.spec->type) {
    case OptionType::flag:
    case OptionType::toggle:
      return v.boolean ? "true" : "false";
    case OptionType::integer:
      return fmt::format("{}", v.integer);
    case OptionType::real:
      return real_text(fmt::format("{}", v.real));
    case OptionType::path:
      return quote_json(whole_path(v.text));
    default:
      return quote_json(v.text);  // as it was typed, also sizes and times
  }
}

// key = value  # origin: a recipe that `tern train` reads back. Values that the run derives stand as derived; options
// that this optimizer or schedule does not have are left out, as giving them is an error.
std::string recipe_text(const Options& o, const TrainSettings& s) {
  const bool wsd = s.schedule.kind == LearningRateKind::wsd;
  const auto absent = [&](std::string_view name) {
    if (is_of_other_rules(s.optimizer.rule, name)) return true;
    if (name == "clip") return row_of(s.optimizer.rule).clip.empty();
    if (name == "eval-every" || name == "eval-batches") return s.valid_data.empty();
    if (name == "max-seconds") return true;  // of one sitting, not of the job
    if (name == "dpo-beta") return !learns_pairs(o);
    if (is_async_option(name)) return !s.async;
    if (s.async && (name == "ranks" || name == "sum-groups" || name == "zero" || name == "tensor-parallel" ||
                    name == "context-parallel"))
      return true;
    if (is_robust_option(name)) return !says_something(name, s.robust);
    if (is_outer_option(name)) return !says_something(name, s.outer);
    if (name == "min-learning-rate") return s.schedule.kind == LearningRateKind::constant;
    return name == "decay-steps" && !wsd;
  };
  const std::vector<DerivedValue> all_derived = derived_values(o);
  const auto derived = [&](std::string_view name) {
    const auto it = std::find_if(all_derived.begin(), all_derived.end(), [&](const auto& d) { return d.name == name; });
    return it == all_derived.end() ? nullptr : &*it;
  };
  std::string out = fmt::format(
      "# The options of this run and where each came from. `tern {} THIS-FILE` runs it again.\n", o.verb().name);
  for (const auto& [name, value] : o.positionals()) {
    if (!value.set) continue;
    std::string key = name;
    std::transform(key.begin(), key.end(), key.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    std::error_code ignored;  // a name in the cache is no path
    const bool is_path = std::filesystem::exists(value.text, ignored);
    out += fmt::format("{} = {}\n", key, quote_json(is_path ? whole_path(value.text) : value.text));
  }
  for (const auto& [name, value] : o.values()) {
    const bool given = value.set && value.origin != Origin::fallback;
    const DerivedValue* worked_out = given ? nullptr : derived(name);
    if (absent(name) || (!value.set && !worked_out)) continue;
    if (name == "output" && given)
      out += fmt::format("{} = \".\"  # this file's folder, wherever it is moved ({})\n", name, value.where);
    else if (worked_out)
      out += fmt::format("{} = {}  # {}\n", name, worked_out->value, worked_out->why);
    else
      out += fmt::format("{} = {}  # {}\n", name, value_text(value), given ? value.where : "default");
  }
  return out;
}

// --target names and commas, "all-linear", or not given: every matrix of the layers.
PeftTargets targets_from(const Options& o) {
  PeftTargets targets;
  for (const std::string& given : o.list("target"))
    for (size_t at = 0; at <= given.size();) {
      const size_t end = std::min(given.find(',', at), given.size());
      if (end > at) targets.names.push_back(given.substr(at, end - at));
      at = end + 1;
    }
  targets.all_linear = targets.names.empty() || std::ranges::count(targets.names, "all-linear") > 0;
  if (targets.all_linear && targets.names.size() > 1)
    throw Error(ErrorKind::usage, "--target: all-linear has every matrix of the layers; leave the other names out");
  if (targets.all_linear) targets.names.clear();
  return targets;
}

// An adapter that is there: its configuration says what it is.
void begin_from(const Options& o, AdapterSettings& a) {
  for (const char* name : {"rank", "alpha", "target", "init"})
    if (o.given(name))
      throw Error(ErrorKind::usage, "--{}: the adapter in --begin {} says it itself; leave it out", name,
                  o.text("begin"));
  if (const std::string method = o.text("method"); method != "lora" && method != "dpo")
    throw Error(ErrorKind::usage,
                "--method {}: the adapter in --begin {} says itself what it is; leave one of the two out", method,
                o.text("begin"));
  const double dropout = a.config.dropout;
  a.begin = o.text("begin");
  a.config = read_peft_config(peft_config_file(a.begin));
  if (o.given("adapter-dropout")) a.config.dropout = dropout;
}

std::optional<AdapterSettings> adapter_from(const Options& o) {
  if (!o.knows("rank")) return {};
  AdapterSettings a;
  a.config.targets = targets_from(o);
  a.config.rank = o.integer("rank");
  const bool given = o.text("method") == "inflora" || o.text("method") == "gainlora";
  const double usual = given ? 1 : 2;  // times the rank
  a.config.alpha = o.has("alpha") ? o.real("alpha") : usual * static_cast<double>(a.config.rank);
  if (!(a.config.alpha > 0)) throw Error(ErrorKind::usage, "--alpha: {}; expected more than 0", a.config.alpha);
  a.config.rank_stabilized = o.text("method") == "rslora";
  a.config.magnitude = o.text("method") == "dora";
  a.config.dropout = o.real("adapter-dropout");
  if (!(a.config.dropout < 1))
    throw Error(ErrorKind::usage, "--adapter-dropout: {} would leave nothing; expected less than 1", a.config.dropout);
  if (o.text("method") == "qalora") a.pool = 64;
  a.init = named<AdapterInit>("init", o.text("init"),
                              {{"true", AdapterInit::kaiming},
                               {"gaussian", AdapterInit::gaussian},
                               {"orthogonal", AdapterInit::orthogonal},
                               {"pissa", AdapterInit::pissa},
                               {"olora", AdapterInit::olora}});
  if (takes_factors(a.init) && o.text("method") != "lora" && o.text("method") != "rslora")
    throw Error(
        ErrorKind::usage,
        "--init {}: takes a part of the weights for A and B of --method lora or rslora, not of {}; leave it out",
        o.text("init"), o.text("method"));
  if (a.init == AdapterInit::orthogonal && a.config.rank % 2 != 0)
    throw Error(ErrorKind::usage,
                "--rank: {}; --init orthogonal gives half of the directions to A, half to B: an even rank",
                a.config.rank);
  if (learns_pairs(o)) {
    a.preference = o.real("dpo-beta");
    if (!(*a.preference > 0)) throw Error(ErrorKind::usage, "--dpo-beta: {}; expected more than 0", *a.preference);
  } else if (o.given("dpo-beta")) {
    throw Error(ErrorKind::usage, "--dpo-beta: only --method dpo has it; leave it out");
  }
  a.b_rate = o.real("lora-plus-ratio");
  if (!(a.b_rate > 0)) throw Error(ErrorKind::usage, "--lora-plus-ratio: {}; expected more than 0", a.b_rate);
  if (o.has("begin")) begin_from(o, a);
  a.config.base_model = o.positional("MODEL");
  return a;
}

int zero_stage(const std::string& text) {
  for (int stage = 0; stage <= 3; ++stage)
    if (text == std::to_string(stage)) return stage;
  throw Error(ErrorKind::usage, "--zero {}: expected 0, 1, 2 or 3", text);
}

// Errors: usage: sizes that tern does not number, what is missing, what would do nothing.
// Each layer is updated before the gradients of the layers below it exist, so nothing may need all of them, or more than one
// micro-batch's.
void check_update_in_backward(const Options& o, const TrainSettings& s) {
  const auto refuse = [](const std::string& why) { throw Error(ErrorKind::usage, "--update-in-backward: {}", why); };
  for (const char* name : {"plan", "async", "aggregator", "outer"})
    if (o.given(name)) refuse(fmt::format("--{} needs gradients together; leave one of the two out", name));
  if (s.ranks > 1)
    refuse(fmt::format("the gradients of --ranks {} are summed first; leave one of the two out", s.ranks));
  if (s.sum_order.groups > 1) refuse("--sum-groups adds gradients up; leave one of the two out");
  if (s.micro_batch != s.batch)
    refuse(fmt::format("the gradients of --batch {} in --micro-batch {} are added up first; choose one size for both",
                       s.batch, s.micro_batch));
  if (s.optimizer.clip > 0)
    refuse(fmt::format("--clip {} needs the norm of all gradients before any weight changes; say --clip 0",
                       s.optimizer.clip));
  if (row_of(s.optimizer.rule).sums.over == UpdateSums::Over::model)
    refuse(
        fmt::format("--optimizer {} takes the norm of all gradients; choose another rule", name_of(s.optimizer.rule)));
}

void check_settings(const Options& o, const TrainSettings& s) {
  if (s.micro_batch > s.batch)
    throw Error(ErrorKind::usage, "--micro-batch: {} sequences, more than the {} of --batch", s.micro_batch, s.batch);
  check_ranks(s);
  if (s.update_in_backward) check_update_in_backward(o, s);
  if (s.adapter && s.adapter->preference && (s.batch % 2 != 0 || s.micro_batch != 1))
    throw Error(ErrorKind::usage,
                "--{}: {}; --method dpo learns from pairs of answers, each answer a micro-batch: an even --batch, and "
                "--micro-batch 1",
                s.micro_batch != 1 ? "micro-batch" : "batch", s.micro_batch != 1 ? s.micro_batch : s.batch);
  // Rows are numbered with 32 bits, and the closed forms of bytes must stay within 64.
  if (s.micro_batch > INT32_MAX / s.seq)
    throw Error(ErrorKind::usage,
                "--micro-batch: {} sequences of --seq {} are {} tokens at a time, more than tern numbers (2^31 - 1); "
                "lower --micro-batch or --seq",
                s.micro_batch, s.seq, s.micro_batch * s.seq);
  if (s.batch > (int64_t{1} << 40) / s.seq)
    throw Error(ErrorKind::usage, "--batch: {} sequences of --seq {} are more than 2^40 tokens a step; lower one",
                s.batch, s.seq);
  const bool no_evaluation = o.given("eval-every") && s.eval_every == 0;
  const bool streams = o.knows("stream") && o.has("stream");  // each task has a test of its own
  for (const char* name : {"eval-every", "eval-batches"})
    if (s.valid_data.empty() && o.given(name) && !no_evaluation && !streams)
      throw Error(ErrorKind::usage,
                  "{}: there is nothing to evaluate on; give --valid-data, or --eval-every 0 for no evaluation",
                  o.value(name).where);
  for (const char* name : {"keep-best", "patience"}) {
    if (!o.given(name)) continue;
    const auto refuse = [&](std::string_view why) {
      throw Error(ErrorKind::usage, "{}: {}", o.value(name).where, why);
    };
    if (s.async) refuse("--async has no such evaluation; leave one of the two out");
    if (streams) refuse("--stream judges each task by its own test; leave one of the two out");
    if (s.valid_data.empty()) refuse("goes by the held-out loss; give --valid-data");
    if (s.eval_every == 0)
      refuse("goes by evaluations during training, and --eval-every 0 has none; leave one of the two out");
  }
  if (s.dry_run) return;
  if (s.data.empty() && !streams)
    throw Error(
        ErrorKind::usage,
        "--data: missing; give a text, JSONL or token file to train on (or --dry-run to see what it would take)");
  if (s.output.empty())
    throw Error(ErrorKind::usage, "--output: missing; give a directory for checkpoints, logs and the trained model");
}

}  // namespace

std::vector<DerivedValue> derived_values(const Options& o) {
  std::vector<DerivedValue> list;
  const auto number = [](auto x) { return fmt::format("{}", x); };
  const std::optional<Plan> plan = o.knows("plan") ? plan_option(o) : std::nullopt;
  if (plan)
    for (const auto& [name, value] : planned_values(*plan))
      if (!o.given(name))
        list.push_back({name, o.value(name).spec->type == OptionType::integer ? value : quote_json(value),
                        fmt::format("the plan {}", o.text("plan"))});
  for (DerivedValue& value : outer_defaults(o)) list.push_back(std::move(value));
  const UpdateRule rule = rule_from(o, plan);
  if (asks_for_async(o) && !o.given("optimizer")) list.push_back({"optimizer", "\"sgd\"", "--async"});
  const std::string why = fmt::format("the default of --optimizer {}", name_of(rule));
  for (const RuleOption& option : row_of(rule).options)
    if (option.name == "momentum" && !o.given("momentum") && async_without_momentum(o))
      list.push_back({option.name, "0.0", "--async-rule asgd"});
    else if (!o.given(option.name))
      list.push_back({option.name, real_text(option.fallback), why});
  if (const std::string_view clip = row_of(rule).clip; !clip.empty() && !o.given("clip"))
    list.push_back({"clip", real_text(clip), why});
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
  if (const int64_t steps = warmup_steps(o); !o.given("warmup-steps") && steps != o.integer("warmup-steps"))
    list.push_back({"warmup-steps", number(steps), "a tenth of --steps, as the run is short"});
  if (!o.given("decay-steps") && o.text("schedule") == "wsd")
    list.push_back({"decay-steps", number(o.integer("steps") / 10), "a tenth of --steps"});
  return list;
}

std::string_view name_of(Multiply m) { return m == Multiply::fast ? "fast" : "exact"; }

Recompute recompute_from_name(std::string_view name) {
  std::vector<std::pair<std::string_view, Recompute>> modes;
  for (const Recompute r : kRecomputes) modes.emplace_back(name_of(r), r);
  return named<Recompute>("recompute", name, modes);
}
Multiply multiply_from_name(std::string_view name) {
  return named<Multiply>("multiply", name, {{"fast", Multiply::fast}, {"exact", Multiply::exact}});
}
Resume resume_from_name(std::string_view name) {
  return named<Resume>("resume", name, {{"auto", Resume::automatic}, {"must", Resume::must}, {"never", Resume::never}});
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
  if (o.knows("zero")) s.zero = zero_stage(o.text("zero"));
  if (o.knows("context") && o.has("context")) s.context = o.integer("context");
  s.schedule = schedule_from(o);
  const std::optional<Plan> plan = o.knows("plan") ? plan_option(o) : std::nullopt;
  s.ranks = ranks_from(o, plan), s.tensor = tensor_from(o, plan);
  s.context_ranks = context_ranks_from(o, plan), s.sum_order = sum_order_from(o, plan);
  s.optimizer = optimizer_from(o, rule_from(o, plan));
  if (async_without_momentum(o) && s.optimizer.rule == UpdateRule::sgd && !o.given("momentum"))
    s.optimizer.set_option("momentum", 0);
  s.dtype = dtype_from_name(o.text("dtype"));
  s.recompute = recompute_from_name(o.text("recompute"));
  s.update_in_backward = o.knows("update-in-backward") && o.flag("update-in-backward");
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
  if (s.async && (s.tensor > 1 || s.context_ranks > 1))
    throw Error(ErrorKind::usage, "--{}: workers of --async work by themselves; leave one of the two out",
                s.tensor > 1 ? "tensor-parallel" : "context-parallel");
  if (s.async) s.ranks = 1, s.sum_order = {1};
  if (s.ranks % s.tensor != 0)
    throw Error(ErrorKind::usage, "--tensor-parallel: {} does not divide --ranks {}; choose --ranks {}", s.tensor,
                s.ranks, (s.ranks / s.tensor + 1) * s.tensor);
  if (s.ranks % (s.tensor * s.context_ranks) != 0)
    throw Error(ErrorKind::usage, "--context-parallel: groups of {} do not divide --ranks {}; choose --ranks {}",
                s.tensor * s.context_ranks, s.ranks,
                (s.ranks / (s.tensor * s.context_ranks) + 1) * s.tensor * s.context_ranks);
  s.robust = robust_from(o, s);
  s.outer = outer_from(o, s);
  s.recipe_toml = recipe_text(o, s);
  check_settings(o, s);
  return s;
}

bool sums_in_order(const TrainSettings& s) {
  const int replicas = num_replicas(s);
  if (replicas == 1 && s.sum_order.groups == 1) return true;
  return s.batch % s.micro_batch == 0 &&
         check_sum_order(s.sum_order, replicas, s.batch / s.micro_batch) == SumFault::none;
}

void check_ranks(const TrainSettings& s) {
  const int64_t groups = s.sum_order.groups;
  const int replicas = num_replicas(s);
  if (num_stage_devices(s) > 1 && groups != replicas)
    throw Error(ErrorKind::usage,
                "--sum-groups: {}, but the plan's stages sum the micro-batches of {} each in their order; leave it out",
                groups, counted(replicas, "replica"));
  if (sums_each_micro_batch(s) && groups != replicas)
    throw Error(
        ErrorKind::usage,
        "--sum-groups: {}, but --zero {} sums each micro-batch over the {} ranks before the next one; choose {}, "
        "or --zero 1",
        groups, deepest_zero(s), replicas, remedy_of(s, nearest_order(s)));
  if (sums_in_order(s)) return;
  const std::string remedy = remedy_of(s, nearest_order(s));
  if (s.batch % s.micro_batch != 0)
    throw Error(ErrorKind::usage,
                "--micro-batch: {} does not divide the {} sequences of --batch, and with --ranks or --sum-groups all "
                "shares are equal; choose {}",
                s.micro_batch, s.batch, remedy);
  const int64_t micros = s.batch / s.micro_batch;
  switch (check_sum_order(s.sum_order, replicas, micros)) {
    case SumFault::micro_not_divided:
      throw Error(ErrorKind::usage,
                  "--{}: {} of a step (--batch {} in --micro-batch {}) cannot be shared out to {} in equal parts; "
                  "choose {}",
                  groups == replicas ? "ranks" : "sum-groups",
                  micros == 1 ? std::string("1 micro-batch") : fmt::format("{} micro-batches", micros), s.batch,
                  s.micro_batch, groups == replicas ? counted(groups, "rank") : counted(groups, "group"), remedy);
    case SumFault::ranks_not_divided:
      throw Error(ErrorKind::usage, "--sum-groups: {} cannot be shared out to --ranks {}; choose {}",
                  counted(groups, "group"), replicas, remedy);
    default:
      throw Error(ErrorKind::usage,
                  "--sum-groups: {} groups on --ranks {} are {} to a rank, no power of two: one rank would sum them in "
                  "another order; choose {}",
                  groups, replicas, groups / replicas, remedy);
  }
}

int deepest_zero(const TrainSettings& s) {
  int zero = s.zero;
  if (s.plan)
    for (const PlannedLayers& l : s.plan->layers) zero = std::max(zero, l.strategy.zero);
  return zero;
}

bool sums_each_micro_batch(const TrainSettings& s) {
  return deepest_zero(s) >= 2 && num_sharers(s) > 1 && s.batch > s.micro_batch * num_replicas(s);
}

std::vector<int> zero_of_units(const ModelSpec& spec, const TrainSettings& s) {
  std::vector<int> zero(spec.units.size(), s.zero);
  if (!s.plan) return zero;
  const std::vector<Layer> layers = layers_of(spec);
  for (const PlannedLayers& planned : s.plan->layers)
    for (int l = planned.first; l < planned.first + planned.count; ++l)
      for (int u = layers[static_cast<size_t>(l)].first, end = u + layers[static_cast<size_t>(l)].count; u < end; ++u)
        zero[static_cast<size_t>(u)] = planned.strategy.zero;
  return zero;
}

}  // namespace tern
