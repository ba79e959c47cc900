// tern adapt MODEL --stream TASKS.toml: tasks one after another, all of them judged after each.
#include <signal.h>

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "adapt/stream.h"
#include "apps/adapter_base.h"
#include "apps/common.h"
#include "apps/given_options.h"
#include "apps/signals.h"
#include "apps/threads.h"
#include "apps/verbs.h"
#include "base/error.h"
#include "base/io.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process_memory.h"
#include "base/progress.h"
#include "base/units.h"

namespace tern {
namespace {

// What says something to one or two methods alone.
void refuse_options_of_others(const Options& o, StreamMethod method) {
  using enum StreamMethod;
  const std::pair<const char*, std::vector<StreamMethod>> kOf[] = {{"inflora-mode", {inflora, gainlora}},
                                                                   {"energy", {inflora, gainlora}},
                                                                   {"statistics-windows", {inflora, gainlora, ewc}},
                                                                   {"gate-width", {gainlora}},
                                                                   {"gate-tokens", {gainlora}},
                                                                   {"gate-updates", {gainlora}},
                                                                   {"penalty", {olora, ewc}},
                                                                   {"replay-share", {replay}}};
  for (const auto& [name, methods] : kOf)
    if (is_asked_for(o, name) && std::ranges::count(methods, method) == 0)
      throw Error(ErrorKind::usage, "--{}: says nothing to --method {}; leave it out", name, name_of(method));
  if ((method == inflora || method == gainlora) && o.given("init") && o.text("init") != "true")
    throw Error(ErrorKind::usage,
                "--init {}: --method {} makes A of the inputs of each task and begins B with zeros; leave it out",
                o.text("init"), name_of(method));
}

StreamSettings settings_from(const Options& o) {
  const std::optional<StreamMethod> method = stream_method(o.text("method"));
  if (!method)
    throw Error(ErrorKind::usage,
                "--method {}: learns one task; with --stream say seqlora, inflora, gainlora, olora, ewc, replay or "
                "multitask",
                o.text("method"));
  for (const char* name : {"data", "valid-data", "trace"})
    if (o.has(name) && !o.text(name).empty())
      throw Error(ErrorKind::usage, "--{}: with --stream each task names its data and its test in {}; leave it out",
                  name, o.text("stream"));
  if (o.given("eval-every"))
    throw Error(ErrorKind::usage,
                "--eval-every: with --stream every test is scored once after every task; leave it out");
  refuse_options_of_others(o, *method);
  if (*method == StreamMethod::gainlora && o.given("micro-batch") && o.integer("micro-batch") != 1)
    throw Error(
        ErrorKind::usage,
        "--micro-batch {}: with --method gainlora a micro-batch is one sequence, as gates read its prompt; leave "
        "it out",
        o.integer("micro-batch"));
  if (*method == StreamMethod::gainlora && o.integer("gate-tokens") >= o.integer("seq"))
    throw Error(ErrorKind::usage,
                "--gate-tokens {}: the gates read so many tokens of each sequence, which then teach nothing, and --seq "
                "{} has no more; lower --gate-tokens or raise --seq",
                o.integer("gate-tokens"), o.integer("seq"));
  return {.train = train_settings(o),
          .tasks = read_stream_file(o.text("stream")),
          .method = *method,
          .mode = o.text("inflora-mode") == "paper" ? InfloraMode::paper : InfloraMode::code,
          .energy = o.real("energy"),
          .statistics_windows = o.integer("statistics-windows"),
          .gate_width = o.integer("gate-width"),
          .gate_tokens = o.integer("gate-tokens"),
          .gate_updates = o.text("gate-updates") == "rescaled" ? GateUpdates::rescaled : GateUpdates::exact,
          .penalty = o.has("penalty")               ? o.real("penalty")
                     : *method == StreamMethod::ewc ? 1000
                                                    : 0.5,
          .replay_share = o.real("replay-share"),
          .references = o.flag("references")};
}

// One line per interval.
struct StreamTalk {
  std::unique_ptr<Progress> progress;

  StreamHooks hooks() {
    StreamHooks h;
    h.begun = [this](const std::string& what) {
      if (progress) progress->finish();
      progress.reset();
      log_info("{} …", what);
    };
    h.note = [](const std::string& text) { log_info("{}", text); };
    h.train = [this](const TrainSettings&) {
      TrainHooks train;
      train.begun = [this](int64_t first, int64_t total) {
        progress = std::make_unique<Progress>("train", total);
        progress->set_start(first);
      };
      train.step = [this](const StepReport& r) {
        progress->update(r.step, r.loss ? fmt::format("loss {:.4f}", *r.loss) : "loss none");
      };
      return train;
    };
    h.done = [this](size_t, const StreamScores&) {
      if (progress) progress->finish();
      progress.reset();
    };
    return h;
  }
};

Json json_of(const StreamSettings& s, const StreamResult& r) {
  Json json = {{"end", r.end == TrainEnd::finished ? "finished" : "interrupted"},
               {"method", name_of(s.method)},
               {"unit", r.scores.accuracy ? "share right" : "bits per byte"},
               {"tasks", r.scores.tasks},
               {"before", r.scores.before},
               {"matrix", r.scores.rows}};
  if (s.method == StreamMethod::inflora || s.method == StreamMethod::gainlora)
    json["mode"] = name_of(s.mode), json["energy"] = s.energy;
  if (!r.scores.alone.empty()) json["alone"] = r.scores.alone;
  if (!r.scores.together.empty()) json["together"] = r.scores.together;
  if (r.scores.rows.size() == s.tasks.size()) {
    const StreamSummary m = summary_of(r.scores);
    const auto number = [](const std::optional<double>& x) { return x ? Json(*x) : Json(); };
    json["AP"] = m.average, json["FT"] = number(m.forgot), json["BWT"] = number(m.backward);
    json["FWT"] = number(m.forward);
  }
  for (const TaskCost& c : r.costs) {
    Json cost = {{"trained", c.trained}, {"kept_bytes", c.kept_bytes}, {"seconds", c.seconds}};
    if (c.all_dim > 0) cost["protected"] = c.protected_dim, cost["inputs"] = c.all_dim;
    json["costs"].push_back(std::move(cost));
  }
  json["product"] = r.product;
  return json;
}

std::string words(const StreamResult& r) {
  std::string text = table_of(r.scores);
  for (size_t t = 0; t < r.costs.size(); ++t) {
    const TaskCost& c = r.costs[t];
    text += fmt::format("{}: {} numbers trained, {} kept for the next task, {}", r.scores.tasks[t],
                        format_with_commas(c.trained), format_bytes(c.kept_bytes), format_seconds(c.seconds));
    if (c.all_dim > 0) text += fmt::format("; {} of {} input directions protected", c.protected_dim, c.all_dim);
    text += "\n";
  }
  return text;
}

}  // namespace

int run_adapt_stream(const Options& options) {
  apply_threads(options);
  return_freed_blocks();
  const StreamSettings s = settings_from(options);
  for (const std::string& text : overruled_options(options)) log_info("{}", text);
  if (!s.train.adapter->begin.empty()) warn_of_other_base(s.train.model, s.train.adapter->begin);
  if (options.flag("dry-run")) {
    const TrainResult plan = forecast_stream(s);
    log_info("{}", describe_stream(s));
    log_info("it fits; predicted memory of {}:\n{}nothing was written (--dry-run)",
             s.method == StreamMethod::gainlora ? "the last task's run, which needs most" : "each task's run",
             describe(plan.predicted));
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  const StopSignals signals(kStopsSafely);
  StreamTalk talk;
  const StreamResult r = run_stream(s, talk.hooks(), real_io(), stop_flag());
  if (talk.progress) talk.progress->finish();
  const Json json = json_of(s, r);
  if (r.end == TrainEnd::interrupted)
    throw Error(ErrorKind::interrupted, "stopped after {} of {} tasks with everything saved; the same command goes on",
                r.scores.rows.size(), s.tasks.size());
  write_file_atomically(real_io(), join_path(s.train.output, "result.json"), dump_json(json, 1) + "\n");
  log_info("page {}", join_path(s.train.output, "page.html"));
  if (options.flag("json"))
    print_json(json);
  else
    print_out(words(r) + fmt::format("{}\n", r.product));
  return 0;
}

}  // namespace tern
