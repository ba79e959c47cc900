#include "adapt/gain_lora.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "adapt/accuracy.h"
#include "adapt/numbers_file.h"
#include "adapt/task_model.h"
#include "adapt/window_prompt.h"
#include "base/error.h"
#include "base/publish.h"
#include "model/adapter_files.h"
#include "model/linear.h"
#include "model/visit_weights.h"
#include "program/generate.h"

namespace tern {
namespace {

std::string place(const StreamSettings& s, size_t t, const char* name) { return StreamPlaces{s}.in(t, name); }

GatedAdapter learned_before(const StreamSettings& s, size_t t) {
  if (t == 0) return {.prompt_tokens = s.gate_tokens, .gates = {}, .branches = {}};
  return read_gated_adapter(gated_directory(s, t - 1));
}
GateMemory gate_memory_before(const StreamSettings& s, size_t t, const InputGate& like) {
  return t > 0 ? gate_memory_of(memories_before(s, t)) : no_gate_memory(like.width, like.hidden);
}

void write_gate(const InputGate& gate, const std::string& path, Io& io) {
  write_matrices(
      {{"first", {gate.width, gate.first}}, {"second", {gate.hidden, gate.second}}, {"key", {gate.width, gate.key}}},
      path, io);
}
InputGate read_gate(const std::string& path) {
  NamedMatrices m = read_matrices(path);
  InputGate gate{.width = m["first"].width, .hidden = m["second"].width, .first = {}, .second = {}, .key = {}};
  gate.first = std::move(m["first"].numbers), gate.second = std::move(m["second"].numbers);
  gate.key = std::move(m["key"].numbers);
  return gate;
}

// A model with branches of `gated` and one of the task's own, which follows the last gate.
struct GatedModel {
  TaskModel task;
  GatedAdapter gated;
  GatedBranches branches;

  std::span<const int32_t> prompt_of(const MicroBatch& window) const {
    return std::span(window.tokens).first(static_cast<size_t>(prompt_rows(window, gated.prompt_tokens)));
  }
  std::vector<double> prompt_mean(const MicroBatch& window) const {
    return mean_embedding(task.in.spec, task.weights, prompt_of(window));
  }
  void set_for(const MicroBatch& window) const { set_for_prompt(prompt_of(window)); }
  void set_for_prompt(std::span<const int32_t> prompt) const {
    const std::vector<double> p = mean_embedding(task.in.spec, task.weights, prompt);
    std::vector<double> gates;
    for (const InputGate& gate : gated.gates) gates.push_back(run_gate(gate, p).gate);
    gates.push_back(0);  // an own branch without a gate
    branches.set(gates);
  }
};

// `own`: the settings' adapter is a branch of its own, after `earlier` of the gated ones; else it is nothing.
void read_gated_model(const TrainSettings& s, DType dtype, GatedAdapter gated, size_t earlier, GatedModel& model) {
  read_task_model(s, dtype, model.task);
  const ModelSpec& spec = model.task.in.spec;
  if (s.adapter->begin.empty())
    for_each_adapter(spec, model.task.weights, [](const ParameterInfo&, Tensor& tensor) { tensor.fill_zero(); });
  model.gated = std::move(gated);
  const std::vector<std::string> beside(model.gated.branches.begin(),
                                        model.gated.branches.begin() + static_cast<std::ptrdiff_t>(earlier));
  add_branches(spec, beside, dtype, model.task.weights, model.task.arena);
  model.branches = GatedBranches(spec, model.task.weights, earlier);
}

Feed data_of(const StreamSettings& s, const TaskModel& model, const std::string& data, Io& io) {
  return feed_of(s.train, model, data, StreamPlaces{s}.of_stream("data"), io);
}

// Moments of a gate over the prompts of a task's windows.
GateMoments gate_moments(const StreamSettings& s, const GatedModel& model, const InputGate& gate, const Feed& feed) {
  GateMoments moments(gate);
  const int64_t count = std::min(feed.num_windows(), s.statistics_windows);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t window = feed.num_windows() * i / count;
    moments.add(run_gate(gate, model.prompt_mean(feed.windows({&window, 1}, nullptr))));
  }
  return moments;
}

void write_begin(const StreamSettings& s, size_t t, const TrainSettings& plain, GatedModel& model, const Feed& feed,
                 Io& io) {
  const auto covariances = input_covariances(plain, model.task, feed, s.statistics_windows,
                                             [&](const MicroBatch& window) { model.set_for(window); });
  InputMemories memories = memories_before(s, t);
  const ModelSpec& spec = model.task.in.spec;
  for_each_linear(spec, model.task.weights, [&](const ParameterInfo& info, Linear& linear) {
    if (linear.branches.empty()) return;
    InputMemory& memory = memories[info.name];
    memory.dim = linear.in;
    // Branches of the task's own come first, one for each module; those of earlier tasks come behind.
    const size_t own = linear.branches.size() / (model.gated.branches.size() + 1);
    for (size_t k = 0; k < own; ++k) {
      const Branch& b = linear.branches[k];
      const std::vector<double> rows = task_directions(memory, covariances.at(info.name), b.rank, s.mode);
      for (size_t i = 0; i < rows.size(); ++i) b.a.span<float>()[i] = static_cast<float>(rows[i]);
    }
    linear.branches.resize(own);
  });
  OutputDirectory output(io, place(s, t, "begin"));
  save_adapters(spec, plain.adapter->config, model.task.weights, output.temporary(), io);
  output.publish();
}

// Σ −log p over the window's targets.
double loss_of(GatedModel& model, const MicroBatch& window, DType dtype, int64_t& targets) {
  const CostQuery query{.tokens = std::ssize(window.tokens),
                        .attended_pairs = attended_pairs_of(window, 0),
                        .dtype = dtype,
                        .scratch = scratch_bytes(Multiply::exact, dtype)};
  const ExecuteResult run =
      execute(forward_program(model.task.in.spec, {&query, 1}), {.spec = model.task.in.spec,
                                                                 .weights = model.task.weights,
                                                                 .micro_batches = {&window, 1},
                                                                 .compute = {model.task.arena, Multiply::exact}});
  targets += run.num_targets;
  return run.loss_sum;
}

// The window's rows up to the last whose target lies in the prompt.
MicroBatch prompt_alone(const MicroBatch& window, int64_t prompt, const RopeTable* rope) {
  const int64_t rows = prompt - 1;
  std::vector<int64_t> starts;
  for (const int64_t start : window.rows.starts)
    if (start < rows) starts.push_back(start);
  starts.push_back(rows);
  return MicroBatch({window.tokens.begin(), window.tokens.begin() + rows}, std::move(starts),
                    {window.targets.begin(), window.targets.begin() + rows}, rope);
}

std::optional<double> gated_bits_per_byte(const TrainSettings& s, GatedModel& model, const Feed& feed,
                                          const std::atomic<bool>& stop) {
  if (feed.data().has_loss())
    throw Error(ErrorKind::bad_file,
                "{}: some of its tokens have no loss, so their bytes are not known; a test is plain text, or JSONL "
                "with `text`",
                feed.data().info().source);
  const RopeTable* rope = model.task.rope ? &*model.task.rope : nullptr;
  const int64_t count = std::min(feed.num_windows(), s.eval_batches * s.batch);
  const std::vector<double> off(model.gated.gates.size() + 1);
  double sum = 0;
  int64_t targets = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (stop) return {};
    const int64_t at = feed.num_windows() * i / count;
    MicroBatch window = feed.windows({&at, 1}, rope);
    const int64_t prompt = prompt_rows(window, model.gated.prompt_tokens);
    if (prompt > 1) {
      model.branches.set(off);
      sum += loss_of(model, prompt_alone(window, prompt, rope), s.dtype, targets);
    }
    model.set_for(window);
    hide_prompt(window, model.gated.prompt_tokens);
    sum += loss_of(model, window, s.dtype, targets);
  }
  if (targets == 0) throw Error(ErrorKind::bad_file, "{}: no token has a loss", feed.data().info().source);
  const TokenFileInfo& info = feed.data().info();
  return sum / static_cast<double>(targets) / std::numbers::ln2 * static_cast<double>(info.num_tokens) /
         static_cast<double>(info.text_bytes);
}

}  // namespace

std::string gated_directory(const StreamSettings& s, size_t t) { return place(s, t, "gated"); }

void begin_gated_task(const StreamSettings& s, size_t t, Io& io) {
  const std::string gate_file = place(s, t, "gate.safetensors");
  const bool has_begin = io.stat(place(s, t, "begin")).has_value();
  if (has_begin && io.stat(gate_file)) return;
  make_dirs(io, StreamPlaces{s}.directory(t));
  TrainSettings plain = task_settings(s, t);
  plain.adapter->begin.clear();
  GatedModel model;
  read_gated_model(plain, DType::f32, learned_before(s, t), t, model);
  const Feed feed = data_of(s, model.task, s.tasks[t].data, io);
  if (!io.stat(gate_file)) {
    const int64_t width = std::get<EmbedSpec>(model.task.in.spec.units.front().spec).width;
    InputGate gate = t > 0 ? model.gated.gates.back() : first_gate(width, s.gate_width, s.train.seed);
    const GateMemory memory = gate_memory_before(s, t, gate);
    gate.key.assign(gate.key.size(), 0);
    choose_key(gate, memory[2], gate_moments(s, model, gate, feed).mean(2), s.train.seed + t);
    write_gate(gate, gate_file, io);
  }
  if (!has_begin) write_begin(s, t, plain, model, feed, io);
}

std::unique_ptr<GateTrainer> gate_trainer(const StreamSettings& s, size_t t) {
  const InputGate begin = read_gate(place(s, t, "gate.safetensors"));
  return std::make_unique<GateTrainer>(GateTask{.earlier = learned_before(s, t),
                                                .begin = begin,
                                                .memory = gate_memory_before(s, t, begin),
                                                .updates = s.gate_updates});
}

std::unique_ptr<GateTrainer> gate_trainer_of_forecast(const StreamSettings& s, const ModelSpec& spec) {
  const int64_t width = std::get<EmbedSpec>(spec.units.front().spec).width;
  const InputGate gate = first_gate(width, s.gate_width, s.train.seed);
  GateTask task{.earlier = {.prompt_tokens = s.gate_tokens,
                            .gates = std::vector<InputGate>(s.tasks.size() - 1, gate),
                            .branches = {}},
                .begin = gate,
                .memory = no_gate_memory(width, s.gate_width)};
  if (s.tasks.size() > 1)
    for (InputMemory& m : task.memory) m.rows.resize(static_cast<size_t>(m.dim * (m.dim / 2)));  // the most
  return std::make_unique<GateTrainer>(std::move(task));
}

void end_gated_task(const StreamSettings& s, size_t t, const GateTrainer& trainer, const std::string& memory, Io& io) {
  const std::string directory = gated_directory(s, t);
  if (!io.stat(directory)) {
    GatedAdapter gated = learned_before(s, t);
    const StreamPlaces places{s};
    // The branch's name in gated/ is the task's.
    const std::string named = places.in(t, fmt::format("{}-{}", t, s.tasks[t].name));
    remove_all(io, named);
    make_dirs(io, named);
    for (const char* file : {"adapter_config.json", "adapter_model.safetensors"})
      write_file_atomically(io, join_path(named, file), io.read(join_path(places.adapter(t), file)));
    gated.gates.push_back(trainer.gate()), gated.branches.push_back(named);
    OutputDirectory output(io, directory);
    write_gated_adapter(gated, output.temporary(), io);
    output.publish();
    remove_all(io, named);
  }
  if (io.stat(memory)) return;
  GatedModel model;
  TrainSettings run = task_settings(s, t);
  GatedAdapter gated = read_gated_adapter(directory);
  run.adapter->begin = gated.branches.back();
  read_gated_model(run, DType::f32, std::move(gated), t, model);
  const Feed feed = data_of(s, model.task, s.tasks[t].data, io);
  InputMemories memories = memories_before(s, t);
  const double threshold = energy_threshold(s.energy, 1, static_cast<int64_t>(t), static_cast<int64_t>(s.tasks.size()));
  const auto covariances = input_covariances(run, model.task, feed, s.statistics_windows,
                                             [&](const MicroBatch& window) { model.set_for(window); });
  for (const auto& [name, covariance] : covariances) {
    InputMemory& kept = memories[name];
    kept.dim = std::llround(std::sqrt(static_cast<double>(covariance.size())));
    remember(kept, covariance, threshold, s.mode);
  }
  GateMemory of_gate = gate_memory_before(s, t, model.gated.gates.back());
  const GateMoments moments = gate_moments(s, model, model.gated.gates.back(), feed);
  for (size_t map = 0; map < of_gate.size(); ++map) remember(of_gate[map], moments.mean(map), threshold, s.mode);
  put_gate_memory(of_gate, memories);
  write_memories(memories, memory, io);
}

std::vector<double> judge_gated(const StreamSettings& s, size_t t, Io& io, const std::atomic<bool>& stop) {
  GatedModel model;
  TrainSettings learned = task_settings(s, t);
  GatedAdapter gated = read_gated_adapter(gated_directory(s, t));
  learned.adapter->begin = gated.branches.back();
  read_gated_model(learned, s.train.dtype, std::move(gated), t, model);
  std::vector<double> scores;
  const auto score_of = [&](const std::string& test) -> std::optional<double> {
    if (!is_choice_test(test)) return gated_bits_per_byte(learned, model, data_of(s, model.task, test, io), stop);
    return choice_accuracy(
        learned, model.task, test, [&] { return stop.load(); },
        [&](std::span<const int32_t> prompt) { model.set_for_prompt(prompt); });
  };
  for (const StreamTask& task : s.tasks) {
    const auto score = score_of(task.test);
    if (!score) return {};
    scores.push_back(*score);
  }
  return scores;
}

}  // namespace tern
