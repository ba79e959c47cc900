#include "adapt/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "adapt/accuracy.h"
#include "adapt/gain_lora.h"
#include "adapt/stream_methods.h"
#include "adapt/stream_page.h"
#include "adapt/task_model.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "train/settings_facts.h"

namespace tern {
namespace {

constexpr const char* kMethods[] = {"seqlora", "inflora", "olora", "ewc", "replay", "gainlora", "multitask"};

bool gives_a(StreamMethod m) { return m == StreamMethod::inflora || m == StreamMethod::gainlora; }

void require_given_a_stays(const StreamSettings& s) {
  const UpdateConfig& u = s.train.optimizer;
  if (u.rule != UpdateRule::adamw && u.rule != UpdateRule::sgd)
    throw Error(ErrorKind::usage,
                "--optimizer {}: with --method {} A is given and must stay as it is; adamw and sgd leave it so",
                name_of(u.rule), name_of(s.method));
  if (u.rule == UpdateRule::adamw && !(u.option("epsilon") > 0))
    throw Error(ErrorKind::usage, "--epsilon: 0 with --method {}; expected more than 0, as A has no gradient",
                name_of(s.method));
}

// All that decides what is learned.
Json request_of(const StreamSettings& s) {
  using enum StreamMethod;
  Json json = {{"model", s.train.model}, {"method", name_of(s.method)}};
  for (const auto& [key, value] : settings_facts(s.train, {}))
    if (!json.contains(key) && key != "tokenizer" && key != "data") json[key] = value;
  if (gives_a(s.method)) json["inflora-mode"] = name_of(s.mode), json["energy"] = s.energy;
  if (gives_a(s.method) || s.method == ewc) json["statistics-windows"] = s.statistics_windows;
  if (s.method == gainlora)
    json["gate-width"] = s.gate_width, json["gate-tokens"] = s.gate_tokens,
    json["gate-updates"] = name_of(s.gate_updates);
  if (s.method == olora || s.method == ewc) json["penalty"] = s.penalty;
  if (s.method == replay) json["replay-share"] = s.replay_share;
  json["eval-batches"] = s.train.eval_batches;
  json["references"] = s.references;
  for (const StreamTask& t : s.tasks)
    json["tasks"].push_back({{"name", t.name},
                             {"data", fmt::format("{:08x}", file_crc32c(real_io(), t.data))},
                             {"test", fmt::format("{:08x}", file_crc32c(real_io(), t.test))},
                             {"steps", t.steps.value_or(s.train.schedule.total_steps)}});
  return json;
}

// Scores of one kind alone make a matrix.
bool tests_have_choices(const std::vector<StreamTask>& tasks) {
  const bool first = is_choice_test(tasks.front().test);
  for (const StreamTask& t : tasks)
    if (is_choice_test(t.test) != first)
      throw Error(ErrorKind::usage,
                  "{} has {}, {} has not; the tests of a stream are all texts, or all questions with choices",
                  first ? tasks.front().test : t.test, "choices", first ? t.test : tasks.front().test);
  return first;
}

class Stream {
 public:
  Stream(const StreamSettings& s, const StreamHooks& hooks, Io& io, const std::atomic<bool>& stop)
      : s_(s), places_{s}, hooks_(hooks), io_(io), stop_(stop) {}

  StreamResult run() {
    if (gives_a(s_.method)) require_given_a_stays(s_);
    for (const StreamTask& task : s_.tasks) result_.scores.tasks.push_back(task.name);
    result_.scores.accuracy = tests_have_choices(s_.tasks);
    require_same_stream();
    result_.end = go_through() ? TrainEnd::finished : TrainEnd::interrupted;
    return std::move(result_);
  }

 private:
  // Whether it came to its end.
  bool go_through() {
    if (!judge_before()) return false;
    if (s_.references && !learn_alone()) return false;
    const bool together = s_.method == StreamMethod::multitask;
    if ((s_.references || together) && !learn_together()) return false;
    if (together) return write_page(), true;
    for (size_t t = 0; t < s_.tasks.size(); ++t) {
      if (!is_there(places_.in(t, "scores.json")) && !learn(t)) return false;
      take_scores(t);
      clear_behind(s_, t, io_);
      if (t + 1 == s_.tasks.size() || !is_there(places_.in(t + 1, "scores.json"))) write_page();
      if (hooks_.done) hooks_.done(t, result_.scores);
    }
    return true;
  }

  // A disk that refuses the page does not stop the stream, as in train/run_page_file.h.
  void write_page() const {
    try {
      write_file_atomically(io_, places_.of_stream("page.html"), stream_page(s_, result_));
    } catch (const Error& e) {
      if (hooks_.note) hooks_.note(fmt::format("{}; the stream goes on without its page", e.what()));
    }
  }
  bool is_there(const std::string& path) const { return io_.stat(path).has_value(); }
  Json read_json(const std::string& path) const { return parse_json(io_.read(path), path); }
  void write_json(const std::string& path, const Json& json) const {
    write_file_atomically(io_, path, dump_json(json) + "\n");
  }
  void begin(const std::string& what) const {
    if (hooks_.begun) hooks_.begun(what);
  }
  double seconds() const { return static_cast<double>(real_clock().now_ns() - begin_ns_) * 1e-9; }

  void require_same_stream() {
    const std::string path = places_.of_stream("stream.json");
    const Json now = request_of(s_);
    if (!is_there(path)) {
      if (s_.train.resume == Resume::must)
        throw Error(ErrorKind::no_checkpoint, "--resume must: {} holds no stream", s_.train.output);
      if (is_there(s_.train.output) && !io_.list(s_.train.output).empty())
        throw Error(ErrorKind::usage, "--output {}: holds other things than a stream of tasks; choose an empty folder",
                    s_.train.output);
      forecast_stream(s_);  // refuses here what the first task would, so that nothing is left behind
      make_dirs(io_, s_.train.output);
      return write_file_atomically(io_, path, dump_json(now, 1) + "\n");
    }
    if (s_.train.resume == Resume::never)
      throw Error(ErrorKind::usage, "--resume never: {} holds a stream; choose another --output", s_.train.output);
    const Json then = read_json(path);
    for (const auto& [key, value] : now.items())
      if (!then.contains(key) || then.at(key) != value)
        throw Error(ErrorKind::usage,
                    "--output {}: its stream was begun with {} {}, now it is {}; choose another --output",
                    s_.train.output, key, then.contains(key) ? then.at(key).dump() : "nothing", value.dump());
  }

  // Whether the run came to its end.
  bool train_run(TrainSettings s, const std::string& what, std::function<void(const StepGradients&)> penalty = {},
                 StepCompanion* companion = nullptr) {
    if (s.max_seconds) s.max_seconds = std::max(0.0, *s.max_seconds - seconds());
    begin(what);
    TrainHooks hooks = hooks_.train ? hooks_.train(s) : TrainHooks{};
    hooks.gradients = std::move(penalty), hooks.companion = companion;
    return train(s, hooks, io_, {.stop = stop_}).end == TrainEnd::finished;
  }

  // Scores of some tasks; empty: stopped.
  std::vector<double> judge(const TrainSettings& s, size_t first, size_t end) {
    TaskModel model;
    read_task_model(s, s_.train.dtype, model);
    std::vector<double> scores;
    const auto stopped = [&] { return stop_.load(); };
    const auto score_of = [&](const std::string& test) {
      if (result_.scores.accuracy) return choice_accuracy(s, model, test, stopped);
      return bits_per_byte(s, model, feed_of(s, model, test, places_.of_stream("data"), io_), s_.train.dtype, stopped);
    };
    for (size_t t = first; t < end; ++t) {
      const auto score = score_of(s_.tasks[t].test);
      if (!score) return {};
      scores.push_back(*score);
    }
    return scores;
  }

  // Scores that lie at `path`, taken now where they do not.
  bool judge_once(const std::string& path, const TrainSettings& s, size_t first, size_t end, std::vector<double>& to) {
    if (!is_there(path)) {
      const std::vector<double> scores = judge(s, first, end);
      if (scores.empty()) return false;
      write_json(path, scores);
    }
    const auto scores = read_json(path).get<std::vector<double>>();
    to.insert(to.end(), scores.begin(), scores.end());
    return true;
  }

  bool judge_before() {
    TrainSettings s = s_.train;
    s.adapter.reset();
    return judge_once(places_.of_stream("before.json"), s, 0, s_.tasks.size(), result_.scores.before);
  }

  // A run beside the stream, and its scores.
  bool learn_beside(const std::string& directory, TrainSettings s, const std::string& what, size_t first, size_t end,
                    std::vector<double>& to) {
    const std::string path = join_path(directory, "scores.json");
    s.output = join_path(directory, "run"), s.eval_every = 0;
    if (!is_there(path) && !train_run(s, what)) return false;
    s.adapter->begin = join_path(s.output, "adapter");
    if (!judge_once(path, s, first, end, to)) return false;
    remove_all(io_, join_path(s.output, "checkpoints"));
    return true;
  }

  bool learn_alone() {
    for (size_t t = 0; t < s_.tasks.size(); ++t) {
      TrainSettings s = s_.train;
      s.data = s_.tasks[t].data;
      take_steps(s, s_.tasks[t].steps.value_or(s_.train.schedule.total_steps));
      const std::string& name = s_.tasks[t].name;
      if (!learn_beside(places_.of_stream("alone-" + name), s, name + " alone", t, t + 1, result_.scores.alone))
        return false;
    }
    return true;
  }

  bool learn_together() {
    const std::string directory = places_.of_stream("together"), data = join_path(directory, "data.safetensors");
    TrainSettings s = s_.train;
    s.data = data;
    int64_t steps = 0;
    std::vector<std::string> parts;
    for (const StreamTask& t : s_.tasks)
      steps += t.steps.value_or(s_.train.schedule.total_steps), parts.push_back(t.data);
    take_steps(s, steps);
    make_dirs(io_, directory);
    if (!is_there(data)) join_data(s_, parts, data, io_);
    result_.product = join_path(join_path(directory, "run"), "adapter");
    return learn_beside(directory, s, "all tasks together", 0, s_.tasks.size(), result_.scores.together);
  }

  bool learn(size_t t) {
    const double begun = seconds();
    begin(fmt::format("task {} of {}: {}", t + 1, s_.tasks.size(), s_.tasks[t].name));
    before_task(s_, t, io_);
    const bool gated = s_.method == StreamMethod::gainlora;
    const std::unique_ptr<GateTrainer> gates = gated ? gate_trainer(s_, t) : nullptr;
    if (!train_run(task_settings(s_, t), s_.tasks[t].name, penalty_of(s_, t), gates.get())) return false;
    gated ? end_gated_task(s_, t, *gates, places_.in(t, kStreamMemory), io_) : after_task(s_, t, io_);
    const std::vector<double> scores =
        gated ? judge_gated(s_, t, io_, stop_) : judge(learned_settings(s_, t), 0, s_.tasks.size());
    if (scores.empty()) return false;
    const TaskCost cost = cost_of(s_, t, io_);
    write_json(places_.in(t, "seconds.json"), seconds() - begun);
    write_json(places_.in(t, "scores.json"), {{"scores", scores},
                                              {"trained", cost.trained},
                                              {"kept_bytes", cost.kept_bytes},
                                              {"protected", cost.protected_dim},
                                              {"inputs", cost.all_dim}});
    return true;
  }

  void take_scores(size_t t) {
    const Json json = read_json(places_.in(t, "scores.json"));
    result_.scores.rows.push_back(json.at("scores").get<std::vector<double>>());
    result_.costs.push_back({.trained = json.at("trained").get<int64_t>(),
                             .kept_bytes = json.at("kept_bytes").get<int64_t>(),
                             .protected_dim = json.at("protected").get<int64_t>(),
                             .all_dim = json.at("inputs").get<int64_t>(),
                             .seconds = read_json(places_.in(t, "seconds.json")).get<double>()});
    result_.product = folds(s_.method)                      ? places_.in(t, "model")
                      : s_.method == StreamMethod::gainlora ? gated_directory(s_, t)
                                                            : places_.adapter(t);
  }

  const StreamSettings& s_;
  const StreamPlaces places_;
  const StreamHooks& hooks_;
  Io& io_;
  const std::atomic<bool>& stop_;
  const int64_t begin_ns_ = real_clock().now_ns();
  StreamResult result_;
};

}  // namespace

std::optional<StreamMethod> stream_method(std::string_view name) {
  for (size_t i = 0; i < std::size(kMethods); ++i)
    if (name == kMethods[i]) return static_cast<StreamMethod>(i);
  return {};
}
std::string_view name_of(StreamMethod method) { return kMethods[static_cast<size_t>(method)]; }

StreamResult run_stream(const StreamSettings& s, const StreamHooks& hooks, Io& io, const std::atomic<bool>& stop) {
  return Stream(s, hooks, io, stop).run();
}

std::string describe_stream(const StreamSettings& s) {
  const auto steps_of = [&](const StreamTask& t) { return t.steps.value_or(s.train.schedule.total_steps); };
  const auto tasks = std::ssize(s.tasks);
  std::string each;
  int64_t all = 0;
  for (const StreamTask& t : s.tasks) {
    each += fmt::format("{}{} ({})", each.empty() ? "" : ", ", t.name, counted(steps_of(t), "step"));
    all += steps_of(t);
  }
  const bool together = s.method == StreamMethod::multitask;
  std::string text =
      fmt::format("{} by --method {}, {}: {}", counted(tasks, "task"), name_of(s.method),
                  together ? fmt::format("all in one run of {}", counted(all, "step")) : "one after another", each);
  if (s.references)
    text += fmt::format("; with --references also a run on each alone{}",
                        together ? "" : fmt::format(", and one of {} on all together", counted(all, "step")));
  return text;
}

TrainResult forecast_stream(const StreamSettings& s, const TrainHooks& hooks) {
  TrainSettings first = s.train;
  first.data = s.tasks.front().data, first.dry_run = true;
  first.adapter->trains_a = !gives_a(s.method);
  if (s.method != StreamMethod::gainlora) return train(first, hooks);
  first.micro_batch = 1;
  const std::unique_ptr<GateTrainer> gates = gate_trainer_of_forecast(s, load_inputs(first).spec);
  TrainHooks beside = hooks;
  beside.companion = gates.get();
  return train(first, beside);
}

}  // namespace tern
