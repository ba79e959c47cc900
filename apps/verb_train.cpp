// tern train: the train/ library between the options and the terminal. Talk goes to standard error, --json to standard
// output.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <nlohmann/json.hpp>

#include "apps/adapter_base.h"
#include "apps/beside_plan.h"
#include "apps/common.h"
#include "apps/given_options.h"
#include "apps/idle_options.h"
#include "apps/pack_line.h"
#include "apps/rank_process.h"
#include "apps/read_text.h"
#include "apps/signals.h"
#include "apps/threads.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/shell.h"
#include "base/units.h"
#include "comm/thread_world.h"
#include "spec/update_words.h"
#include "train/async_trainer.h"
#include "train/plan_settings.h"
#include "train/trainer.h"
#include "train/update_notes.h"

namespace tern {
namespace {

// Of --async: the workers, and their server.
int num_ranks(const TrainSettings& s) { return s.async ? num_async_ranks(s) : s.ranks; }

std::string words(const StepReport& r) {
  std::string text = fmt::format("loss {}  norm {:.3f}  lr {:.2e}  {} tok/s  {:.1f} GFLOP/s",
                                 r.loss ? fmt::format("{:.4f}", *r.loss) : "none", r.gradient_norm, r.learning_rate,
                                 format_count(r.tokens_per_s), r.flops_per_s * 1e-9);
  if (r.accuracy) text += fmt::format("  preferred {:.0f} %", 100 * *r.accuracy);
  if (r.share_of_peak > 0) text += fmt::format(" ({:.0f} % of peak)", 100 * r.share_of_peak);
  return text + "  " + format_bytes(r.memory_bytes);
}

std::string words(const Evaluation& e) {
  std::string text = fmt::format("held-out loss {:.4f} over {} tokens", e.loss, format_with_commas(e.num_targets));
  if (e.accuracy) text += fmt::format(", {:.0f} % of pairs preferred", 100 * *e.accuracy);
  if (e.bits_per_byte) text += fmt::format(", {:.3f} bits per byte", *e.bits_per_byte);
  return text;
}

Json json_of(const PredictedMemory& memory) {
  Json json = Json::object();
  for (const auto& [name, bytes] : memory.classes()) json[std::string(name)] = bytes;
  json["tensors"] = memory.tensors();
  json["total"] = memory.total();
  return json;
}

Json json_of(const TrainSettings& s, const TrainResult& r) {
  constexpr const char* kEnds[] = {"finished", "interrupted", "planned", "stopped_early"};
  Json json = {{"end", kEnds[static_cast<int>(r.end)]},
               {"first_step", r.first_step},
               {"step", r.last_step},
               {"steps", s.schedule.total_steps},
               {"parameters", r.num_parameters},
               {"ranks", num_ranks(s)},
               {"sum_groups", s.sum_order.groups},
               {"predicted_bytes", json_of(r.predicted)}};
  json.update(update_json(s));
  json["program"]["checksum"] = fmt::format("{:08x}", r.program_checksum);
  if (s.plan && s.plan->program) json["program"]["planned_checksum"] = fmt::format("{:08x}", s.plan->program->checksum);
  if (s.plan) json["program"]["planned_step_seconds"] = static_cast<double>(s.plan->step_ps) * 1e-12;
  if (s.plan && s.plan->program)
    json["program"]["planned_program_seconds"] = static_cast<double>(s.plan->program->step_ps) * 1e-12;
  if (r.end == TrainEnd::planned_only) return json;
  json["loss"] = r.loss ? Json(*r.loss) : Json();
  json["steps_without_loss"] = r.idle_steps;
  json["seconds"] = r.seconds;
  if (s.plan && r.steady_step_seconds > 0) json["program"]["step_seconds"] = r.steady_step_seconds;
  json["evaluation_seconds"] = r.evaluation_seconds;
  json["checkpoints"] = r.checkpoints, json["checkpoint_seconds"] = r.checkpoint_seconds;
  json["tokens_per_s"] = r.tokens_per_s;
  json["flops_per_s"] = r.flops_per_s;
  json["peak_flops_per_s"] = r.peak.flops_per_s;
  json["peak_measured"] = r.peak.measured;
  json["counted_peak_bytes"] = r.counted_peak_bytes;
  json["peak_resident_bytes"] = r.peak_resident_bytes;
  json["byte_mismatches"] = r.byte_mismatches;
  if (num_ranks(s) > 1 && !s.async) json["sent_bytes"] = r.sent_bytes;
  if (s.outer) json["outer_bytes"] = r.outer_bytes;
  json["checkpoint"] = r.checkpoint;
  json[s.adapter ? "adapter" : "model"] = r.model;
  if (r.evaluation) {
    json["held_out"] = {{"loss", r.evaluation->loss}, {"tokens", r.evaluation->num_targets}};
    if (r.evaluation->accuracy) json["held_out"]["accuracy"] = *r.evaluation->accuracy;
    if (r.evaluation->bits_per_byte) json["held_out"]["bits_per_byte"] = *r.evaluation->bits_per_byte;
  }
  if (r.stored)
    json["states"] = {{"bytes", r.stored->state_bytes},
                      {"read_bytes", r.stored->read_bytes},
                      {"written_bytes", r.stored->written_bytes},
                      {"disk_bytes_per_s", r.stored->bytes_per_s},
                      {"disk_step_seconds", r.stored->disk_step_seconds},
                      {"waited_seconds", r.stored->waited_seconds},
                      {"step_seconds", r.steady_step_seconds}};
  if (r.best) json["best"] = {{"step", r.best->step}, {"loss", r.best->loss}, {"model", r.best_model}};
  return json;
}

// What a recipe says and the run does not do; an adapter of another model. And the default rate is one for adamw: who chose another
// rule hears which rates suit it.
void tell_derived(const Options& o, const TrainSettings& s) {
  for (const std::string& text : overruled_options(o)) log_info("{}", text);
  if (s.adapter && !s.adapter->begin.empty()) warn_of_other_base(s.model, s.adapter->begin);
  const UpdateRule rule = s.optimizer.rule;
  if (o.given("learning-rate") || takes_adamw_rates(rule)) return;
  log_info("--learning-rate {} is the default, which suits adamw; rates of {}: {}", s.schedule.peak, name_of(rule),
           rate_words(rule));
}

// The lines of a run on a terminal, or one per interval elsewhere.
struct TrainTalk {
  std::unique_ptr<Progress> progress;
  PackLine packing;

  TrainHooks hooks(const TrainSettings& s) {
    TrainHooks h;
    h.note = [](const std::string& text) { log_info("{}", text); };
    h.phase = [](const std::string& text) { log_info("{} …", text); };
    h.predicted = [&s](const PredictedMemory& memory, const ModelSpec& spec) {
      log_info("model: {} parameters in {} layers; {} tokens a step; memory predicted: {}",
               format_count(static_cast<double>(num_parameters(spec))), spec.layers,
               format_with_commas(s.batch * s.seq), format_bytes(memory.total()));
    };
    h.pack = packing.options();
    h.begun = [this](int64_t first, int64_t total) {
      packing.finish();
      progress = std::make_unique<Progress>("train", total);
      progress->set_start(first);
    };
    h.step = [this](const StepReport& r) { progress->update(r.step, words(r)); };
    h.evaluated = [](int64_t step, const Evaluation& e) { log_info("step {}: {}", step, words(e)); };
    return h;
  }
};

bool ended(const TrainResult& r) { return r.end == TrainEnd::finished || r.end == TrainEnd::stopped_early; }

void tell_end(const TrainSettings& s, const TrainResult& r) {
  if (r.end == TrainEnd::planned_only) {
    log_info("it fits; predicted memory:\n{}{}nothing was written (--dry-run)", describe(r.predicted),
             s.plan ? fmt::format("the plan's Program has the checksum {:08x}; a step takes {}, says the plan\n",
                                  r.program_checksum, planned_words(*s.plan))
                    : "");
    return;
  }
  if (r.end == TrainEnd::stopped_early)
    log_info("ended at step {} of {}: the last {} evaluations were not better than that of step {} (--patience)",
             r.last_step, s.schedule.total_steps, r.best->since, r.best->step);
  if (r.last_step == r.first_step && r.end == TrainEnd::finished)
    log_info("all {} steps were done before; a larger --steps goes on", r.last_step);
  const int64_t steps = r.last_step - r.first_step;
  if (steps > 0)
    log_info(
        "{} in {}: {} tok/s, {:.1f} GFLOP/s{}{}{}{}{}", counted(steps, "step"), format_seconds(r.seconds),
        format_count(r.tokens_per_s), r.flops_per_s * 1e-9,
        r.peak.flops_per_s > 0
            ? fmt::format(
                  ", {:.0f} % of the {:.0f} GFLOP/s that {} reached here on 1024³ products{}",
                  100 * r.flops_per_s / r.peak.flops_per_s, r.peak.flops_per_s * 1e-9, r.peak.multiplier,
                  r.peak.measured.empty() ? "" : fmt::format(" ({}, kept in {})", r.peak.measured, peak_rate_path()))
            : "",
        r.evaluation_seconds > 0 ? fmt::format("; evaluation {} more", format_seconds(r.evaluation_seconds)) : "",
        r.checkpoints > 0 ? fmt::format("; {} held the steps up for {}", counted(r.checkpoints, "checkpoint"),
                                        format_seconds(r.checkpoint_seconds))
                          : "",
        r.loss ? fmt::format("; the last loss {:.4f}", *r.loss) : "", s.plan ? beside_plan(*s.plan, r) : "");
  log_info(
      "memory: tensors {} at their most (predicted {}); with the program itself {} resident (predicted at most {})",
      format_bytes(r.counted_peak_bytes), format_bytes(r.predicted.tensors()), format_bytes(r.peak_resident_bytes),
      format_bytes(r.predicted.total()));
  log_info("checkpoint {}; model {}; page {}", r.checkpoint, r.model, join_path(s.output, "page.html"));
  if (!r.best_model.empty())
    log_info("the lowest held-out loss, {:.4f}, was that of step {}: {}", r.best->loss, r.best->step, r.best_model);
  if (r.idle_steps > 0)
    log_info("{} of {} steps had no token with a loss and made no update", format_with_commas(r.idle_steps),
             format_with_commas(steps));
  // An adapter's directory has no template, and MODEL keeps its own.
  const std::string with_template = s.chat_template.empty() ? "" : " --chat-template " + shell_quoted(s.chat_template);
  if (ended(r) && s.adapter)
    log_info("try: {} {} {} --adapter {}{}", program_name(), r.converses ? "chat" : "generate", shell_quoted(s.model),
             shell_quoted(r.model), r.converses ? with_template : "");
  else if (ended(r) && r.converses)
    log_info("try: {} chat {}", program_name(), shell_quoted(r.model));
  else if (ended(r))
    log_info("try: {} generate {} --prompt 'Once upon a time' --temperature 0.8", program_name(),
             shell_quoted(r.model));
}

// Ranks are threads, each with a team of so many. Rank 0 talks and has the result; who fails speaks for itself.
TrainResult train_on_threads(const TrainSettings& s, const TrainHooks& hooks, int threads) {
  TrainResult result;
  run_ranks(num_ranks(s), {}, [&](std::unique_ptr<Transport> transport) {
    set_compute_threads(threads);
    const bool leads = transport->rank() == 0;
    TrainResult own = train(s, leads ? hooks : TrainHooks{}, real_io(),
                            {.world = std::make_shared<Comm>(std::move(transport)), .stop = stop_flag()});
    if (leads) result = std::move(own);
  });
  return result;
}

void require_launched_ranks(const Options& options, const LaunchedRank& launched) {
  if (options.integer("ranks") != launched.size)
    throw Error(ErrorKind::usage, "--ranks {}: {} has started {} processes, each a rank; leave --ranks out",
                options.integer("ranks"), launched.launcher, launched.size);
  const std::optional<Plan> plan = plan_option(options);
  if (const int64_t devices = plan ? plan->choice.devices() : launched.size; devices != launched.size)
    throw Error(ErrorKind::usage, "--plan {}: the plan is of {}, and {} were started; start {} with {}",
                options.text("plan"), counted(devices, "rank"), launched.size, devices,
                launched.launcher == "srun"       ? fmt::format("srun --ntasks {}", devices)
                : launched.launcher == "torchrun" ? fmt::format("WORLD_SIZE={}", devices)
                                                  : fmt::format("{} -n {}", launched.launcher, devices));
}

// How many ranks with --threads each have the CPUs of this process to share. Other launchers than tern launch may give each rank its own.
int64_t ranks_that_share_cpus(const Options& options, const std::optional<LaunchedRank>& launched) {
  if (launched) return launched->rank != 0 ? 0 : launched->launcher == "tern launch" ? launched->local_size : 1;
  if (!options.knows("ranks") || !options.has("threads")) return 1;
  if (options.flag("async")) return options.has("workers") ? options.integer("workers") : 1;
  const std::optional<Plan> plan = plan_option(options);
  return plan ? plan->choice.devices() : options.integer("ranks");
}

struct Trained {
  TrainSettings settings;
  TrainResult result;
};

// `threads`: of this machine's cores, shared out to its ranks unless --threads says how many each has. `signals` get their value when there
// may be something to save: at once, or when all ranks are connected.
Trained train_with(const Options& options, const std::optional<LaunchedRank>& launched, TrainTalk& talk, int threads,
                   std::optional<StopSignals>& signals) {
  const auto share = [&](int ranks) { return options.has("threads") ? threads : std::max(1, threads / ranks); };
  Trained done;
  if (!launched) {
    signals.emplace(kStopsSafely);  // also while data are packed: what is half-written is cleared away
    if (options.knows("transport") && options.text("transport") == "mpi")
      throw Error(ErrorKind::usage,
                  "--transport mpi: this process is a run of its own; start its ranks with mpirun -n N tern train ...");
    done.settings = train_settings(options);
    tell_derived(options, done.settings);
    if (options.knows("ranks"))
      for (const std::string& text : idle_words(options, process_environment(), done.settings)) log_info("{}", text);
    const TrainHooks hooks = talk.hooks(done.settings);
    const int ranks = num_ranks(done.settings);
    done.result = ranks == 1 ? train(done.settings, hooks, real_io(), {.stop = stop_flag()})
                             : train_on_threads(done.settings, hooks, share(done.settings.async ? ranks - 1 : ranks));
    return done;
  }
  // This process is one rank of a launcher's. What is wrong with its settings the others have to hear too.
  const Carrier carrier =
      options.knows("transport") && options.text("transport") == "mpi" ? Carrier::mpi : Carrier::tcp;
  run_as_rank(*launched, carrier, options.real("comm-timeout"), [&](std::shared_ptr<Comm> comm) {
    signals.emplace(launched->rank != 0 ? nullptr : kStopsSafely);
    require_launched_ranks(options, *launched);
    done.settings = train_settings(options);
    if (launched->rank == 0) tell_derived(options, done.settings);
    set_compute_threads(share(launched->local_size));
    done.result = train(done.settings, launched->rank == 0 ? talk.hooks(done.settings) : TrainHooks{}, real_io(),
                        {.world = std::move(comm), .stop = stop_flag(), .processes_here = launched->local_size});
  });
  return done;
}

}  // namespace

int run_adapt(const Options& options) {
  if (launched_rank()) throw Error(ErrorKind::usage, "tern adapt runs as one process; start it without a launcher");
  if (options.has("stream")) return run_adapt_stream(options);
  for (const char* name : {"inflora-mode", "energy", "statistics-windows", "gate-width", "gate-tokens", "gate-updates",
                           "penalty", "replay-share", "references"})
    if (is_asked_for(options, name))
      throw Error(ErrorKind::usage, "--{}: is for tasks one after another; name them with --stream TASKS.toml", name);
  constexpr std::array<std::string_view, 8> kOneTask{"lora",    "rslora", "qalora",  "qblora",
                                                     "qablora", "dora",   "irqlora", "dpo"};
  if (const std::string method = options.text("method"); std::ranges::count(kOneTask, method) == 0)
    throw Error(ErrorKind::usage, "--method {}: learns tasks one after another; name them with --stream TASKS.toml",
                method);
  return run_train(options);
}

int run_train(const Options& options) {
  const std::optional<LaunchedRank> launched = launched_rank();
  const int threads = apply_threads(options, ranks_that_share_cpus(options, launched));
  return_freed_blocks();  // oneDNN's kernels take blocks and free them
  TrainTalk talk;
  const auto [settings, result] = [&] {
    ::signal(SIGPIPE, SIG_IGN);  // who reads the log may go; the run goes on
    std::optional<StopSignals> signals;
    return train_with(options, launched, talk, threads, signals);
  }();
  if (launched && launched->rank != 0)  // rank 0 tells it
    return result.end == TrainEnd::interrupted ? static_cast<int>(ErrorKind::interrupted) : 0;
  talk.packing.finish();
  if (talk.progress) talk.progress->finish();
  tell_end(settings, result);
  if (options.flag("json")) print_json(json_of(settings, result));
  if (result.end == TrainEnd::interrupted)
    throw Error(ErrorKind::interrupted,
                "stopped after step {} of {} with everything saved; the same command goes on from there",
                result.last_step, settings.schedule.total_steps);
  return 0;
}

}  // namespace tern
